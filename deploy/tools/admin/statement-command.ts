import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { Command } from "commander";
import {
  type GetStatementResponse,
  GetStatementResponseSchema,
  LineKindSchema,
  type UsageSum,
} from "#proto/billing/v1/billing_pb.ts";
import { enumWords } from "#shared/money/enum-words.ts";
import { formatUsd } from "#shared/money/money.ts";
import { readInstant } from "./arguments.ts";
import { asData, type Run } from "./clients.ts";
import { type Column, figures, instant, table, units } from "./render.ts";

const modelColumns: Column<UsageSum>[] = [
  { heading: "model", cell: (sum) => sum.group || "-" },
  { heading: "calls", cell: (sum) => String(sum.calls), isFigure: true },
  { heading: "charged in USD", cell: (sum) => formatUsd(sum.chargedNanos), isFigure: true },
  { heading: "units", cell: (sum) => units(sum.usage) },
];

type Span = { from: Timestamp; until: Timestamp };

export function addStatementCommand(program: Command, run: Run): void {
  program
    .command("statement")
    .description("show an account's bookings within a period, with opening and closing balance")
    .argument("<account>")
    .requiredOption("--from <time>", "start, inclusive", readInstant)
    .requiredOption("--until <time>", "end, exclusive", readInstant)
    .action((accountId: string, span: Span) =>
      run(async ({ billing }) => {
        const statement = await billing.getStatement({ accountId, ...span });
        return {
          text: [heading(accountId, span), balances(statement), models(statement)].filter(Boolean).join("\n\n"),
          data: asData(GetStatementResponseSchema, statement),
          hint: statement.isFinal ? undefined : "not final: more may still be booked within this time",
        };
      }),
    );
}

function heading(accountId: string, { from, until }: Span): string {
  return `${accountId}, booked from ${instant(from)} until ${instant(until)}, in USD`;
}

function balances({ openingBalanceNanos, closingBalanceNanos, sums }: GetStatementResponse): string {
  return figures([
    ["opening balance", formatUsd(openingBalanceNanos)],
    ...sums.map(({ kind, lines, amountNanos }): [string, string] => [
      `${lines} × ${enumWords(LineKindSchema, kind)}`,
      formatUsd(amountNanos),
    ]),
    ["closing balance", formatUsd(closingBalanceNanos)],
  ]);
}

function models({ models: sums }: GetStatementResponse): string {
  return table(sums, modelColumns, "");
}
