import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { Command } from "commander";
import {
  type Key,
  KeySchema,
  KeyStatus,
  KeyStatusSchema,
  type UpdateKeyRequestSchema,
} from "#proto/authquota/v1/authquota_pb.ts";
import { enumWords } from "#shared/money/enum-words.ts";
import { orWord, readCount, readInstant, readNames, readUsd } from "./arguments.ts";
import { type Answer, asData, type Run } from "./clients.ts";
import { everyOption, limitChange, limitOf, periodOf, type PeriodWord } from "./limits.ts";
import { type Column, instant, table } from "./render.ts";

const columns: Column<Key>[] = [
  { heading: "key", cell: (key) => key.keyId },
  { heading: "name", cell: (key) => key.name || "-" },
  { heading: "secret", cell: (key) => `${key.secretPrefix}…` },
  { heading: "status", cell: (key) => enumWords(KeyStatusSchema, key.status) },
  { heading: "expires", cell: (key) => instant(key.expiresAt, "never") },
  { heading: "limit in USD", cell: limitOf },
  { heading: "models", cell: (key) => key.models.join(",") || "all" },
  { heading: "from", cell: (key) => key.addresses.join(",") || "all" },
  { heading: "tags", cell: (key) => key.tags.join(",") || "-" },
  { heading: "a minute", cell: (key) => String(key.requestsPerMinute || "-"), isFigure: true },
  { heading: "at once", cell: (key) => String(key.maxConcurrent || "-"), isFigure: true },
  { heading: "made", cell: (key) => instant(key.createdAt) },
];

type CreateOptions = {
  name: string;
  expires?: Timestamp;
  limit?: bigint;
  every?: PeriodWord;
  models?: string[];
  maxConcurrent?: number;
  perMinute?: number;
  addresses?: string[];
  tags?: string[];
};
type Change = MessageInitShape<typeof UpdateKeyRequestSchema>;

export function addKeyCommands(program: Command, run: Run): void {
  const key = program.command("key").description("keys: make, list, stop, limit, delete");
  addCreate(key, run);
  key
    .command("list")
    .description("list the keys of an account, newest first")
    .argument("<account>")
    .option("--deleted", "include deleted keys", false)
    .action((accountId: string, options: { deleted: boolean }) =>
      run(async ({ authQuota }) =>
        many((await authQuota.listKeys({ accountId, includeDeleted: options.deleted })).keys),
      ),
    );
  key
    .command("delete")
    .description("delete the key permanently")
    .argument("<key>")
    .action((keyId: string) => run(async ({ authQuota }) => one((await authQuota.deleteKey({ keyId })).key)));
  addChanges(key, run);
}

function addCreate(key: Command, run: Run): void {
  key
    .command("create")
    .description("create a key; its secret is printed once, alone on standard output")
    .argument("<account>")
    .requiredOption("--name <text>", "display name")
    .option("--expires <time>", "expiry, such as 2027-01-31 or 2027-01-31T12:00:00Z", readInstant)
    .option("--limit <usd>", "amount the key may spend", readUsd)
    .addOption(everyOption())
    .option("--models <names>", "models the key may use, comma-separated", readNames)
    .option("--max-concurrent <n>", "calls at once; 0 or omitted: as many as the account may have", readCount)
    .option("--per-minute <n>", "calls per minute; 0 or omitted: as many as the account may begin", readCount)
    .option("--addresses <list>", "addresses and networks from which the key works, comma-separated", readNames)
    .option("--tags <names>", "tags by which keys are listed and summed up, comma-separated", readNames)
    .action((accountId: string, options: CreateOptions) =>
      run(async ({ authQuota }) => {
        const { name, expires, limit, every, models = [], maxConcurrent = 0, perMinute = 0 } = options;
        const { addresses = [], tags = [] } = options;
        const created = await authQuota.createKey({
          accountId,
          name,
          models,
          maxConcurrent,
          requestsPerMinute: perMinute,
          addresses,
          tags,
          ...(expires && { expiresAt: expires }),
          ...(limit !== undefined && { limitNanos: limit }),
          ...periodOf(every),
        });
        const { text, data } = one(created.key);
        return { text: created.secret, data: { key: data, secret: created.secret }, hint: text };
      }),
    );
}

function addChanges(key: Command, run: Run): void {
  const change = (request: Change): Promise<void> =>
    run(async ({ authQuota }) => one((await authQuota.updateKey(request)).key));
  key
    .command("stop")
    .description("stop the key until it is activated again")
    .argument("<key>")
    .action((keyId: string) => change({ keyId, status: KeyStatus.STOPPED }));
  key
    .command("activate")
    .description("reactivate a stopped key")
    .argument("<key>")
    .action((keyId: string) => change({ keyId, status: KeyStatus.ACTIVE }));
  key
    .command("expire")
    .description("set when the key expires")
    .argument("<key>")
    .argument("<time>", "2027-01-31, 2027-01-31T12:00:00Z, or never", orWord("never", readInstant))
    .action((keyId: string, expiresAt: Timestamp | undefined) =>
      change({ keyId, ...(expiresAt ? { expiresAt } : { clearExpiry: true }) }),
    );
  key
    .command("limit")
    .description("set the amount the key may spend, in all or in each period; without --every the period stays")
    .argument("<key>")
    .argument("<usd>", "amount in USD, or none", orWord("none", readUsd))
    .addOption(everyOption())
    .action((keyId: string, limitNanos: bigint | undefined, { every }: { every?: PeriodWord }) =>
      change({ keyId, ...limitChange(limitNanos, every) }),
    );
  key
    .command("models")
    .description("set which models the key may use")
    .argument("<key>")
    .argument("<names>", "comma-separated names, or all", orWord("all", readNames))
    .action((keyId: string, models: string[] | undefined) =>
      change({ keyId, ...(models ? { models } : { clearModels: true }) }),
    );
  key
    .command("concurrency")
    .description("set how many calls of the key may be under way at once")
    .argument("<key>")
    .argument("<calls>", "calls at once; 0: as many as the account may have", readCount)
    .action((keyId: string, maxConcurrent: number) => change({ keyId, maxConcurrent }));
  key
    .command("rate")
    .description("set how many calls of the key may begin in a minute")
    .argument("<key>")
    .argument("<calls>", "calls per minute; 0: as many as the account may begin", readCount)
    .action((keyId: string, requestsPerMinute: number) => change({ keyId, requestsPerMinute }));
  key
    .command("addresses")
    .description("set from which addresses and networks the key works")
    .argument("<key>")
    .argument("<list>", "comma-separated, such as 192.0.2.7,2001:db8::/48, or all", orWord("all", readNames))
    .action((keyId: string, addresses: string[] | undefined) =>
      change({ keyId, ...(addresses ? { addresses } : { clearAddresses: true }) }),
    );
  key
    .command("tags")
    .description("set the tags by which keys are listed and summed up")
    .argument("<key>")
    .argument("<names>", "comma-separated tags, or none", orWord("none", readNames))
    .action((keyId: string, tags: string[] | undefined) =>
      change({ keyId, ...(tags ? { tags } : { clearTags: true }) }),
    );
}

function many(keys: Key[]): Answer {
  return { text: table(keys, columns, "no keys"), data: { keys: keys.map((key) => asData(KeySchema, key)) } };
}

function one(key: Key | undefined): Answer {
  return { text: table(key ? [key] : [], columns, "no key"), data: key && asData(KeySchema, key) };
}
