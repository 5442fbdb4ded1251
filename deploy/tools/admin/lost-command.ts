import type { Command } from "commander";
import type { BookedAccount, BookedKey } from "#proto/billing/v1/billing_pb.ts";
import { formatUsd } from "#shared/money/money.ts";
import type { Answer, Clients, Run } from "./clients.ts";
import { type Column, instant, table } from "./render.ts";

export function addLostCommand(program: Command, run: Run): void {
  program
    .command("lost")
    .description("list accounts and keys of the ledger that auth-quota does not know, as after a restore; exits with 1")
    .action(() => run(listLost));
}

const accountColumns: Column<BookedAccount>[] = [
  { heading: "account", cell: ({ accountId }) => accountId },
  { heading: "balance in USD", cell: ({ balanceNanos }) => formatUsd(balanceNanos), isFigure: true },
];

const keyColumns: Column<BookedKey>[] = [
  { heading: "key", cell: ({ keyId }) => keyId },
  { heading: "of account", cell: ({ accountId }) => accountId },
  { heading: "spent in USD", cell: ({ spentNanos }) => formatUsd(spentNanos), isFigure: true },
  { heading: "charged last", cell: ({ chargedAt }) => instant(chargedAt) },
];

/**
 * Lists accounts and keys that have ledger lines and no row in auth-quota. Those without a line were never used, and no
 * money is on them.
 */
export async function listLost({ authQuota, billing }: Clients): Promise<Answer> {
  const accounts = await lostOf<BookedAccount>({
    idOf: ({ accountId }) => accountId,
    page: async (afterAccountId) => (await billing.listBookedAccounts({ afterAccountId, limit })).accounts,
    known: async (accountIds) => (await authQuota.getAccounts({ accountIds })).accounts.map((one) => one.accountId),
  });
  const keys = await lostOf<BookedKey>({
    idOf: ({ keyId }) => keyId,
    page: async (afterKeyId) => (await billing.listBookedKeys({ afterKeyId, limit })).keys,
    known: async (keyIds) => (await authQuota.getKeys({ keyIds })).keys.map((one) => one.keyId),
  });
  const isWrong = accounts.length + keys.length > 0;
  return {
    text: isWrong
      ? `${table(accounts, accountColumns, "no account is lost")}\n\n${table(keys, keyColumns, "no key is lost")}`
      : "auth-quota knows every account and key of the ledger",
    data: {
      accounts: accounts.map(({ accountId, balanceNanos }) => ({ accountId, balanceNanos: String(balanceNanos) })),
      keys: keys.map(({ keyId, accountId, spentNanos, chargedAt }) => ({
        keyId,
        accountId,
        spentNanos: String(spentNanos),
        chargedAt: instant(chargedAt),
      })),
    },
    isWrong,
    hint: isWrong ? "make accounts again with their ids (account create --id), and new keys for them" : undefined,
  };
}

const limit = 1_000;

type Listing<T> = {
  idOf: (one: T) => string;
  page: (after: string) => Promise<T[]>;
  known: (ids: string[]) => Promise<string[]>;
};

async function lostOf<T>({ idOf, page, known }: Listing<T>): Promise<T[]> {
  const lost: T[] = [];
  for (let after = ""; ;) {
    const found = await page(after);
    const knownIds = new Set(found.length > 0 ? await known(found.map(idOf)) : []);
    lost.push(...found.filter((one) => !knownIds.has(idOf(one))));
    const last = found.at(-1);
    if (last === undefined || found.length < limit) return lost;
    after = idOf(last);
  }
}
