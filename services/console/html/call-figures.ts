import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { UsageRecorded } from "#proto/usage/v1/usage_pb.ts";

/** Tokens and times of a call, as lists of calls show them; times are since it was admitted. */
export type CallFigures = {
  tokensIn: bigint;
  tokensOut: bigint;
  firstMs: number | undefined;
  allMs: number | undefined;
};

export function callFigures({ usage, startedAt, firstByteAt, endedAt }: UsageRecorded): CallFigures {
  const since = (at: typeof endedAt): number | undefined =>
    startedAt && at ? timestampMs(at) - timestampMs(startedAt) : undefined;
  return {
    tokensIn: sum([usage?.inputTokens, usage?.cacheReadTokens, usage?.cacheWrite5mTokens, usage?.cacheWrite1hTokens]),
    tokensOut: sum([usage?.outputTokens, usage?.reasoningTokens]),
    firstMs: since(firstByteAt),
    allMs: since(endedAt),
  };
}

const sum = (units: readonly (bigint | undefined)[]): bigint =>
  units.reduce<bigint>((all, unit) => all + (unit ?? 0n), 0n);

export const seconds = (ms: number): string => (ms < 1_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`);
