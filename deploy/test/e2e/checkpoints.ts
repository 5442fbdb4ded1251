import { Redis } from "ioredis";

/**
 * What auth-quota has written down of the calls that hold money now: nano-USD by rid. Read from Redis itself, as the
 * head of auth-quota's money script describes it, because nothing else tells what a call would cost if its relay never
 * spoke again.
 */
export async function readCheckpoints(redisUrl: string): Promise<Map<string, bigint>> {
  const redis = new Redis(redisUrl, { lazyConnect: true });
  redis.on("error", () => undefined);
  try {
    await redis.connect();
    const names = await redis.keys(`${callName}*`);
    const calls = names.length > 0 ? await redis.mget(...names) : [];
    const checkpoints = new Map<string, bigint>();
    names.forEach((name, index) => {
      const [state, , , , , , checkpoint] = (calls[index] ?? "").split(" ");
      if (state === "held" && checkpoint) checkpoints.set(name.slice(callName.length), BigInt(checkpoint));
    });
    return checkpoints;
  } finally {
    redis.disconnect();
  }
}

const callName = "{auth-quota}:call:";
