import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Command, Option } from "commander";
import {
  type LedgerLine,
  LineKindSchema,
  ListLedgerLinesResponseSchema,
  ListQuarantineResponseSchema,
  type QuarantinedRecord,
  QueryUsageResponseSchema,
  UsageGrouping,
  type UsageSum,
} from "#proto/billing/v1/billing_pb.ts";
import { EndCauseSchema } from "#proto/usage/v1/usage_pb.ts";
import { dayMs, systemClock } from "#shared/process/clock.ts";
import { enumWords } from "#shared/money/enum-words.ts";
import { formatUsd } from "#shared/money/money.ts";
import { readCount, readInstant } from "./arguments.ts";
import { type Answer, asData, type Clients, type Run } from "./clients.ts";
import { type Column, instant, table, units } from "./render.ts";

const lineColumns: Column<LedgerLine>[] = [
  { heading: "time", cell: (line) => instant(line.bookedAt) },
  { heading: "kind", cell: (line) => enumWords(LineKindSchema, line.kind) },
  { heading: "model", cell: (line) => line.usage?.modelRequested ?? "-" },
  { heading: "units", cell: (line) => units(line.usage?.usage) },
  { heading: "amount in USD", cell: (line) => formatUsd(line.amountNanos), isFigure: true },
  { heading: "rid or reference", cell: (line) => [line.rid, line.reference].filter(Boolean).join(" ") || "-" },
  { heading: "end", cell: (line) => (line.usage ? enumWords(EndCauseSchema, line.usage.endCause) : line.note || "-") },
];

const sumColumns = (grouping: string): Column<UsageSum>[] => [
  { heading: grouping, cell: (sum) => sum.group || "all" },
  { heading: "calls", cell: (sum) => String(sum.calls), isFigure: true },
  { heading: "charged in USD", cell: (sum) => formatUsd(sum.chargedNanos), isFigure: true },
  { heading: "units", cell: (sum) => units(sum.usage) },
];

const quarantineColumns: Column<QuarantinedRecord>[] = [
  { heading: "number", cell: (record) => String(record.quarantineId), isFigure: true },
  { heading: "time", cell: (record) => instant(record.receivedAt) },
  { heading: "bytes", cell: (record) => String(record.payload.length), isFigure: true },
  { heading: "reason", cell: (record) => record.reason },
];

const usageDays = 30;
const groupings = { day: UsageGrouping.DAY, model: UsageGrouping.MODEL, key: UsageGrouping.KEY };

type LedgerOptions = { limit: number; before: string; rid: string };
type UsageOptions = { from?: Timestamp; until?: Timestamp; by?: keyof typeof groupings };

export function addLedgerCommands(program: Command, run: Run): void {
  program
    .command("ledger")
    .description("list an account's ledger lines, newest first")
    .argument("<account>")
    .option("--limit <n>", "maximum number of lines, up to 1000", readCount, 100)
    .option("--before <line>", "only lines before this line_id", "")
    .option("--rid <rid>", "only lines of this call", "")
    .action((accountId: string, options: LedgerOptions) => run((clients) => readLines(clients, accountId, options)));
  program
    .command("usage")
    .description("sum up an account's usage; default: the last 30 days")
    .argument("<account>")
    .option("--from <time>", "start, inclusive", readInstant)
    .option("--until <time>", "end, exclusive", readInstant)
    .addOption(new Option("--by <group>", "group the sums").choices(Object.keys(groupings)))
    .action((accountId: string, options: UsageOptions) => run((clients) => readUsage(clients, accountId, options)));
  program
    .command("quarantine")
    .description("list quarantined messages, newest first; --json shows their content")
    .option("--limit <n>", "maximum number of lines, up to 1000", readCount, 100)
    .action(({ limit }: { limit: number }) =>
      run(async ({ billing }) => {
        const response = await billing.listQuarantine({ limit });
        const text = table(response.records, quarantineColumns, "nothing is in quarantine");
        return { text, data: asData(ListQuarantineResponseSchema, response) };
      }),
    );
}

async function readLines({ billing }: Clients, accountId: string, options: LedgerOptions): Promise<Answer> {
  const { limit, before, rid } = options;
  const response = await billing.listLedgerLines({ accountId, limit, beforeLineId: before, rid });
  const last = response.lines.length < limit ? undefined : response.lines.at(-1);
  return {
    text: table(response.lines, lineColumns, "no ledger lines"),
    data: asData(ListLedgerLinesResponseSchema, response),
    hint: last && `there may be more: --before ${last.lineId}`,
  };
}

async function readUsage({ billing }: Clients, accountId: string, options: UsageOptions): Promise<Answer> {
  const nowMs = systemClock.nowMs();
  const { from = timestampFromMs(nowMs - usageDays * dayMs), until = timestampFromMs(nowMs), by } = options;
  const groupBy = by ? groupings[by] : UsageGrouping.UNSPECIFIED;
  const response = await billing.queryUsage({ accountId, from, until, groupBy });
  return {
    text: table(response.sums, sumColumns(by ?? "group"), "no use"),
    data: asData(QueryUsageResponseSchema, response),
  };
}
