import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { Command } from "commander";
import { type ReplayResponse, ReplayResponseSchema } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { formatUsd } from "#shared/money/money.ts";
import { readInstant } from "./arguments.ts";
import { type Answer, asData, type Clients, type Run } from "./clients.ts";
import { figures } from "./render.ts";

// All of a day could be missing: the rest is only counted.
const shownRids = 1_000;

type ReplayOptions = { from?: Timestamp; until?: Timestamp; account: string; dryRun?: boolean };

export function addReplayCommand(program: Command, run: Run): void {
  program
    .command("replay")
    .description("replay the usage stream and book missing events; --dry-run exits with 1 when any is missing")
    .option("--from <time>", "start, inclusive; default: the first message", readInstant)
    .option("--until <time>", "end, exclusive; default: the last message", readInstant)
    .option("--account <id>", "only this account", "")
    .option("--dry-run", "only report, book nothing")
    .action((options: ReplayOptions) => run((clients) => replay(clients, options)));
}

async function replay({ streams }: Clients, { from, until, account, dryRun = false }: ReplayOptions): Promise<Answer> {
  const request = { accountId: account, dryRun, ...(from && { from }), ...(until && { until }) };
  const rids: string[] = [];
  let last: ReplayResponse | undefined;
  for await (const response of streams.replay(request)) {
    last = response;
    rids.push(...response.missingRids.slice(0, shownRids - rids.length));
  }
  if (!last?.isDone) throw new ServiceError("unavailable", "the replay ended before its end; run it again");
  return {
    text: [counts(last), ...rids].join("\n"),
    data: { ...asData(ReplayResponseSchema, last), missingRids: rids },
    hint: last.missing > rids.length ? `${last.missing - BigInt(rids.length)} more calls are not named` : undefined,
    isWrong: dryRun && last.missing > 0n,
  };
}

function counts({ events, known, missing, missingNanos, rejected }: ReplayResponse): string {
  return figures([
    ["events", String(events)],
    ["known", String(known)],
    ["missing", String(missing)],
    ["missing in USD", formatUsd(missingNanos)],
    ["cannot be booked", String(rejected)],
  ]);
}
