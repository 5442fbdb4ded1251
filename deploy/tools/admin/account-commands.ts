import type { Command } from "commander";
import { type Account, AccountSchema, AccountStatus, AccountStatusSchema } from "#proto/authquota/v1/authquota_pb.ts";
import { enumWords } from "#shared/money/enum-words.ts";
import { orWord, readCount, readUsd } from "./arguments.ts";
import { type Answer, asData, type Clients, type Run } from "./clients.ts";
import { everyOption, limitChange, limitOf, type PeriodWord } from "./limits.ts";
import { type Column, instant, table } from "./render.ts";

const columns: Column<Account>[] = [
  { heading: "account", cell: (account) => account.accountId },
  { heading: "name", cell: (account) => account.name },
  { heading: "status", cell: (account) => enumWords(AccountStatusSchema, account.status) },
  { heading: "calls per minute", cell: (account) => String(account.requestsPerMinute || "default"), isFigure: true },
  { heading: "at once", cell: (account) => String(account.maxConcurrent || "default"), isFigure: true },
  { heading: "limit in USD", cell: limitOf },
  { heading: "made", cell: (account) => instant(account.createdAt) },
];

const pageSize = 1_000;

type CreateOptions = { name: string; id?: string; requestsPerMinute?: number; maxConcurrent?: number };

export function addAccountCommands(program: Command, run: Run): void {
  const account = program.command("account").description("accounts: create, list, suspend, limit");
  account
    .command("create")
    .description("create an account with a balance of 0")
    .requiredOption("--name <text>", "display name")
    .option("--id <id>", "account id; default: generated")
    .option("--requests-per-minute <n>", "calls per minute; 0 or omitted: the service's default", readCount)
    .option("--max-concurrent <n>", "calls at once; 0 or omitted: the service's default", readCount)
    .action((options: CreateOptions) =>
      run(async ({ authQuota }) => {
        const { name, id = "", requestsPerMinute = 0, maxConcurrent = 0 } = options;
        const wanted = { name, accountId: id, requestsPerMinute, maxConcurrent };
        return one((await authQuota.createAccount(wanted)).account);
      }),
    );
  account
    .command("list")
    .description("list all accounts by id")
    .action(() => run(async (clients) => many(await listAll(clients))));
  for (const [word, status] of [
    ["suspend", AccountStatus.SUSPENDED],
    ["activate", AccountStatus.ACTIVE],
  ] as const) {
    account
      .command(word)
      .description(
        word === "suspend" ? "suspend the account: its keys are rejected as invalid" : "reactivate the account",
      )
      .argument("<account>")
      .action((accountId: string) =>
        run(async ({ authQuota }) => one((await authQuota.updateAccount({ accountId, status })).account)),
      );
  }
  account
    .command("rate")
    .description("set the calls per minute of the account")
    .argument("<account>")
    .argument("<calls>", "calls per minute; 0: the service's default", readCount)
    .action((accountId: string, requestsPerMinute: number) =>
      run(async ({ authQuota }) => one((await authQuota.updateAccount({ accountId, requestsPerMinute })).account)),
    );
  account
    .command("concurrency")
    .description("set how many calls of the account may be under way at once")
    .argument("<account>")
    .argument("<calls>", "calls at once; 0: the service's default", readCount)
    .action((accountId: string, maxConcurrent: number) =>
      run(async ({ authQuota }) => one((await authQuota.updateAccount({ accountId, maxConcurrent })).account)),
    );
  account
    .command("limit")
    .description("set what all keys of the account may spend, in all or in each period; without --every that stays")
    .argument("<account>")
    .argument("<usd>", "amount in USD, or none", orWord("none", readUsd))
    .addOption(everyOption())
    .action((accountId: string, limitNanos: bigint | undefined, { every }: { every?: PeriodWord }) =>
      run(async ({ authQuota }) => {
        const change = { accountId, ...limitChange(limitNanos, every) };
        return one((await authQuota.updateAccount(change)).account);
      }),
    );
}

async function listAll({ authQuota }: Clients): Promise<Account[]> {
  const all: Account[] = [];
  for (;;) {
    const { accounts } = await authQuota.listAccounts({ afterAccountId: all.at(-1)?.accountId ?? "", limit: pageSize });
    all.push(...accounts);
    if (accounts.length < pageSize) return all;
  }
}

function many(accounts: Account[]): Answer {
  const data = { accounts: accounts.map((account) => asData(AccountSchema, account)) };
  return { text: table(accounts, columns, "no accounts"), data };
}

function one(account: Account | undefined): Answer {
  const accounts = account ? [account] : [];
  return { text: table(accounts, columns, "no account"), data: account && asData(AccountSchema, account) };
}
