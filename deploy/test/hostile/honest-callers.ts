import { Agent, request } from "undici";

/** What became of the calls that were made beside an attack. */
export type HonestTally = { calls: number; errors: string[]; slowestMs: number };

type Target = { relayUrl: string; secret: string };

const periodMs = 50;
const patienceMs = 30_000;

const bodyOf = (stream: boolean): string =>
  JSON.stringify({ model: "honest", stream, messages: [{ role: "user", content: "one two three four five six" }] });

/**
 * Calls at a steady pace, whoever else is served: a call that waits does not keep the next one back. Half of them are
 * streamed.
 */
export function startHonestCallers({ relayUrl, secret }: Target) {
  let tally: HonestTally = { calls: 0, errors: [], slowestMs: 0 };
  const dispatcher = new Agent({ connections: 64, headersTimeout: patienceMs, bodyTimeout: patienceMs });
  const open = new Set<Promise<void>>();
  let isStream = false;
  const call = async (): Promise<void> => {
    const mine = tally;
    const startedAt = performance.now();
    const asked = (isStream = !isStream);
    try {
      const { statusCode, body } = await request(`${relayUrl}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
        body: bodyOf(asked),
        dispatcher,
      });
      const answer = await body.text();
      const isWhole = asked ? answer.includes("data: [DONE]") : answer.trimEnd().endsWith("}");
      if (statusCode !== 200 || !isWhole)
        mine.errors.push(`${statusCode} ${answer.slice(0, 80).replaceAll(/\s+/g, " ")}`);
    } catch (error) {
      mine.errors.push(String(error));
    }
    mine.calls += 1;
    mine.slowestMs = Math.max(mine.slowestMs, performance.now() - startedAt);
  };
  const timer = setInterval(() => {
    const calling = call().finally(() => open.delete(calling));
    open.add(calling);
  }, periodMs);
  return {
    /** What became of the calls since it was last asked, those under way included. */
    take: async (): Promise<HonestTally> => {
      const taken = tally;
      tally = { calls: 0, errors: [], slowestMs: 0 };
      await Promise.all(open);
      return taken;
    },
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer);
      await Promise.all(open);
      await dispatcher.close();
    },
  };
}
