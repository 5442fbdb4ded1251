import type { Command } from "commander";
import { GetHoldsResponseSchema } from "#proto/authquota/v1/authquota_pb.ts";
import {
  CorrectResponseSchema,
  CreditResponseSchema,
  GetBalanceResponseSchema,
  type LedgerLine,
  RefundResponseSchema,
} from "#proto/billing/v1/billing_pb.ts";
import { formatUsd } from "#shared/money/money.ts";
import { readPositiveUsd, readUsd } from "./arguments.ts";
import { type Answer, asData, type Clients, type Run } from "./clients.ts";
import { figures } from "./render.ts";

type BookedLine = { line?: LedgerLine | undefined; balanceNanos: bigint };

export function addMoneyCommands(program: Command, run: Run): void {
  program
    .command("credit")
    .description("credit an account, once per payment id")
    .argument("<account>")
    .argument("<usd>", "amount in USD", readUsd)
    .requiredOption("--payment-id <id>", "id of the payment; an id is booked only once")
    .option("--note <text>", "free-text note", "")
    .action((accountId: string, amountNanos: bigint, { paymentId, note }: { paymentId: string; note: string }) =>
      run(async (clients) => {
        await requireAccount(clients, accountId);
        const booked = await clients.billing.credit({ accountId, amountNanos, paymentId, note });
        return { ...render(booked), data: asData(CreditResponseSchema, booked) };
      }),
    );
  program
    .command("correct")
    .description("book a correction, once per id; a negative amount takes money")
    .argument("<account>")
    .argument("<usd>", "amount in USD", readUsd)
    .requiredOption("--id <id>", "id of the correction; an id is booked only once")
    .requiredOption("--reason <text>", "why")
    .option("--rid <rid>", "request id of the corrected call", "")
    .action((accountId: string, amountNanos: bigint, options: { id: string; reason: string; rid: string }) =>
      run(async (clients) => {
        const { id: correctionId, reason, rid } = options;
        await requireAccount(clients, accountId);
        const booked = await clients.billing.correct({ accountId, amountNanos, correctionId, reason, rid });
        return { ...render(booked), data: asData(CorrectResponseSchema, booked) };
      }),
    );
  program
    .command("refund")
    .description("refund a call, once per id; without an amount, all that is left of its charge")
    .argument("<account>")
    .argument("<rid>", "the call")
    .argument("[usd]", "amount in USD", readPositiveUsd)
    .requiredOption("--id <id>", "id of the refund; an id is booked only once")
    .requiredOption("--reason <text>", "why")
    .action((accountId: string, rid: string, usd: bigint | undefined, options: { id: string; reason: string }) =>
      run(async ({ billing }) => {
        const { id: refundId, reason } = options;
        const booked = await billing.refund({ accountId, rid, amountNanos: usd ?? 0n, refundId, reason });
        return { ...render(booked), data: asData(RefundResponseSchema, booked) };
      }),
    );
  program
    .command("balance")
    .description("show an account's balance in USD")
    .argument("<account>")
    .action((accountId: string) => run((clients) => readBalance(clients, accountId)));
  program
    .command("holds")
    .description("show open holds and unconfirmed charges of one account or all")
    .argument("[account]")
    .action((accountId?: string) => run((clients) => readHolds(clients, accountId ?? "")));
}

/** The ledger takes money for any id; a mistyped one must not swallow it. Throws `not_found`. */
async function requireAccount({ authQuota }: Clients, accountId: string): Promise<void> {
  await authQuota.listKeys({ accountId });
}

function render({ line, balanceNanos }: BookedLine): Pick<Answer, "text"> {
  return {
    text: figures([
      ["line", line?.lineId ?? "-"],
      ["amount", formatUsd(line?.amountNanos ?? 0n)],
      ["balance", formatUsd(balanceNanos)],
    ]),
  };
}

async function readBalance({ billing, authQuota }: Clients, accountId: string): Promise<Answer> {
  const [balance, holds] = await Promise.all([billing.getBalance({ accountId }), authQuota.getHolds({ accountId })]);
  const text = figures([
    ["balance", formatUsd(balance.balanceNanos)],
    ["credited", formatUsd(balance.creditedNanos)],
    ["charged", formatUsd(balance.chargedNanos)],
    ["held", formatUsd(holds.heldNanos)],
    ["unposted", formatUsd(holds.unpostedNanos)],
    ["available", formatUsd(holds.availableNanos)],
  ]);
  const data = { ...asData(GetBalanceResponseSchema, balance), ...asData(GetHoldsResponseSchema, holds) };
  return { text, data };
}

async function readHolds({ authQuota }: Clients, accountId: string): Promise<Answer> {
  const holds = await authQuota.getHolds({ accountId });
  const counts: [string, string][] = [
    ["open holds", String(holds.openHolds)],
    ["unposted calls", String(holds.unpostedCalls)],
  ];
  const amounts: [string, string][] = [
    ["held", formatUsd(holds.heldNanos)],
    ["unposted", formatUsd(holds.unpostedNanos)],
    ["available", formatUsd(holds.availableNanos)],
  ];
  const text = figures(accountId === "" ? counts : [...counts, ...amounts]);
  return { text, data: asData(GetHoldsResponseSchema, holds) };
}
