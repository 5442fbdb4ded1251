import { lookup } from "node:dns/promises";
import { RelayService, type GetStateResponse } from "#proto/relay/v1/relay_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { Clock } from "#shared/process/clock.ts";
import type { GrpcCredentials } from "#shared/grpc/credentials.ts";
import { connectGrpc, unaryClient, type UnaryClient } from "#shared/grpc/grpc.ts";

/** One relay process: its state, or why it did not tell it. */
export type RelayState = { address: string } & (
  | { state: GetStateResponse; problem?: undefined }
  | { state?: undefined; problem: string }
);

/** The relay processes, each of which answers for itself. */
export type Relays = {
  /** Asks all of them at once; never rejects. */
  states: () => Promise<RelayState[]>;
  /** The same as it was at most two seconds ago, for pages that many people open: all of them wait for one answer. */
  recentStates: () => Promise<RelayState[]>;
  /** Works with one process that answers. Rejects with `unavailable` when none does. */
  withOne: <T>(work: (relay: OneRelay) => Promise<T>) => Promise<T>;
};

/** A relay process that has just answered with its state. */
export type OneRelay = { state: GetStateResponse; client: UnaryClient<typeof RelayService> };

const maxRelays = 64;

// A check of a catalog takes up to 10 s, a test of an upstream 20 s.
const workTimeoutMs = 25_000;

const recentMs = 2_000;

/** The addresses that a `host:port` stands for: a headless service has one for each process. */
async function resolve(target: string): Promise<string[]> {
  const cut = target.lastIndexOf(":");
  const [host, port] = [target.slice(0, cut).replaceAll(/[[\]]/g, ""), target.slice(cut + 1)];
  try {
    const found = await lookup(host, { all: true });
    const write = (address: string, family: number) => (family === 6 ? `[${address}]:${port}` : `${address}:${port}`);
    return found.map(({ address, family }) => write(address, family));
  } catch {
    return [target];
  }
}

type RelayRequestOptions = { timeoutMs: number; credentials?: GrpcCredentials };

async function askOne(address: string, { timeoutMs, credentials }: RelayRequestOptions): Promise<RelayState> {
  // Questions are rare and relays come and go: a connection is not worth keeping.
  using channel = connectGrpc(address, credentials, "relay");
  try {
    return { address, state: await unaryClient(RelayService, channel, timeoutMs).getState({}) };
  } catch (error) {
    return { address, problem: error instanceof Error ? error.message : String(error) };
  }
}

/** `targets` are `host:port` with commas between them. At most 64 processes are asked, each for `timeoutMs` at most. */
export function createRelays(targets: string, asking: RelayRequestOptions, clock: Clock): Relays {
  const wanted = targets
    .split(",")
    .map((target) => target.trim())
    .filter((target) => target !== "");
  const states = async (): Promise<RelayState[]> => {
    const addresses = new Set((await Promise.all(wanted.map(resolve))).flat());
    return await Promise.all([...addresses].slice(0, maxRelays).map((address) => askOne(address, asking)));
  };
  const withOne: Relays["withOne"] = async (work) => {
    const found = (await states()).find(({ state }) => state?.catalog !== undefined);
    if (!found?.state) throw new ServiceError("unavailable", "no relay process answers");
    using channel = connectGrpc(found.address, asking.credentials, "relay");
    return await work({ state: found.state, client: unaryClient(RelayService, channel, workTimeoutMs) });
  };
  return { states, recentStates: shareRecent(states, clock), withOne };
}

/** Makes one question of those that are asked while it is under way or soon after its answer. */
function shareRecent<T>(ask: () => Promise<T>, clock: Clock): () => Promise<T> {
  let last: { answer: Promise<T>; answeredAtMs?: number } | undefined;
  const isRecent = (atMs: number | undefined): boolean =>
    atMs === undefined || Math.abs(clock.nowMs() - atMs) < recentMs;
  return () => {
    if (last && isRecent(last.answeredAtMs)) return last.answer;
    const request: NonNullable<typeof last> = { answer: ask() };
    const end = (): void => void (request.answeredAtMs = clock.nowMs());
    request.answer.then(end, end);
    last = request;
    return request.answer;
  };
}
