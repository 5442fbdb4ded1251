import { lookup } from "node:dns/promises";
import { RelayService, type GetStateResponse } from "#proto/relay/v1/relay_pb.ts";
import { connectGrpc, unaryClient } from "#shared/grpc.ts";

/** One relay process: its state, or why it did not tell it. */
export type RelayState = { address: string } & (
  | { state: GetStateResponse; problem?: undefined }
  | { state?: undefined; problem: string }
);

/** The relay processes, each of which answers for itself. */
export type Relays = {
  /** Asks all of them at once; never rejects. */
  states: () => Promise<RelayState[]>;
};

const mostRelays = 64;

/** The addresses that a `host:port` stands for: a headless service has one for each process. */
async function resolve(target: string): Promise<string[]> {
  const cut = target.lastIndexOf(":");
  const [host, port] = [target.slice(0, cut), target.slice(cut + 1)];
  try {
    const found = await lookup(host.replaceAll(/[[\]]/g, ""), { all: true });
    return found.map(({ address, family }) => (family === 6 ? `[${address}]:${port}` : `${address}:${port}`));
  } catch {
    return [target];
  }
}

async function ask(address: string, timeoutMs: number): Promise<RelayState> {
  // Pages of operators are rare and relays come and go: a connection per question is not worth keeping.
  using channel = connectGrpc(address);
  try {
    return { address, state: await unaryClient(RelayService, channel, timeoutMs).getState({}) };
  } catch (error) {
    return { address, problem: error instanceof Error ? error.message : String(error) };
  }
}

/** `targets` are `host:port` with commas between them. At most 64 processes are asked, each for `timeoutMs` at most. */
export function createRelays(targets: string, timeoutMs: number): Relays {
  const wanted = targets
    .split(",")
    .map((target) => target.trim())
    .filter((target) => target !== "");
  return {
    states: async () => {
      const addresses = [...new Set((await Promise.all(wanted.map(resolve))).flat())];
      return await Promise.all(addresses.slice(0, mostRelays).map((address) => ask(address, timeoutMs)));
    },
  };
}
