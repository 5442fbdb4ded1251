import { readFile, writeFile } from "node:fs/promises";
import { type Command, InvalidArgumentError } from "commander";
import {
  ApplyCatalogResponseSchema,
  GetCatalogResponseSchema,
  GetKeptCatalogResponseSchema,
  ListCatalogsResponseSchema,
  type CatalogVersion,
} from "#proto/authquota/v1/authquota_pb.ts";
import { priceTextsOf } from "#shared/catalog/price-texts.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { asData, type Answer, type Clients, type Run } from "./clients.ts";
import { figures, instant, table } from "./render.ts";

type Authored = { author: string; note: string };

export function addCatalogCommand(program: Command, run: Run): void {
  const catalog = program
    .command("catalog")
    .description("show which catalog relays took last from a file, and write it into a file")
    .option("--output <file>", "where to write its text")
    .action(({ output }: { output?: string }) => run((clients) => showNewest(clients, output)));
  catalog
    .command("list")
    .description("versions that were applied, and those that relays took from files, newest first")
    .action(() => run(list));
  catalog
    .command("show")
    .description("one version, or its text")
    .argument("<version>", "its number", readVersion)
    .option("--kept", "of those that relays took from files")
    .option("--text", "its text alone")
    .action((version: bigint, { kept, text }: { kept?: true; text?: true }) =>
      run((clients) => show(clients, { isApplied: kept !== true, version }, text === true)),
    );
  const signed = (command: Command): Command =>
    command.requiredOption("--author <name>", "who applies it").option("--note <text>", "what it is for", "");
  signed(catalog.command("apply"))
    .description("apply a catalog, which a relay checks first")
    .argument("<file>", "its text")
    .requiredOption("--base <version>", "the version that it was made from; 0: none was applied yet", readVersion)
    .action((file: string, { base, ...authored }: Authored & { base: bigint }) =>
      run(async (clients) => apply(clients, { content: await readFile(file, "utf8"), baseVersion: base, ...authored })),
    );
  signed(catalog.command("rollback"))
    .description("apply an old version again")
    .argument("<version>", "its number", readVersion)
    .option("--kept", "of those that relays took from files")
    .action((version: bigint, { kept, author, note }: Authored & { kept?: true }) =>
      run((clients) => rollBack(clients, { isApplied: kept !== true, version }, { author, note })),
    );
}

function readVersion(text: string): bigint {
  if (!/^\d{1,18}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return BigInt(text);
}

async function showNewest({ authQuota }: Clients, output: string | undefined): Promise<Answer> {
  const kept = await authQuota.getKeptCatalog({});
  if (output !== undefined) await writeFile(output, kept.content);
  return {
    text: figures([
      ["version", String(kept.version)],
      ["SHA-256", kept.hash],
      ["taken by", kept.takenBy],
      ["taken at", instant(kept.takenAt)],
    ]),
    data: asData(GetKeptCatalogResponseSchema, kept),
  };
}

async function list({ authQuota }: Clients): Promise<Answer> {
  const listed = await authQuota.listCatalogs({});
  const columns = [
    { heading: "VERSION", cell: ({ version }: CatalogVersion) => String(version), isFigure: true },
    { heading: "WHEN", cell: ({ at }: CatalogVersion) => instant(at) },
    { heading: "SHA-256", cell: ({ hash }: CatalogVersion) => hash.slice(0, 12) },
    { heading: "BY", cell: ({ author, via }: CatalogVersion) => (via === "" ? author : `${author} (${via})`) },
    { heading: "NOTE", cell: ({ note }: CatalogVersion) => note },
  ];
  const applied = table(listed.applied, columns, "none");
  const kept = table(listed.kept, columns.slice(0, -1), "none");
  return {
    text: `applied\n${applied}\n\ntaken from files\n${kept}`,
    data: asData(ListCatalogsResponseSchema, listed),
  };
}

type Wanted = { isApplied: boolean; version: bigint };

async function show({ authQuota }: Clients, wanted: Wanted, isText: boolean): Promise<Answer> {
  const found = await authQuota.getCatalog(wanted);
  const data = asData(GetCatalogResponseSchema, found);
  if (isText) return { text: found.content.replace(/\n$/, ""), data };
  const { version, hash, author, note, at } = found.version ?? {};
  return {
    text: figures([
      ["version", String(version)],
      ["SHA-256", hash ?? ""],
      ["by", author ?? ""],
      ["note", note ?? ""],
      ["at", instant(at)],
    ]),
    data,
  };
}

async function apply(clients: Clients, asked: Authored & { content: string; baseVersion: bigint }): Promise<Answer> {
  const { problems, unsetVariables, catalog } = await clients.relay().checkCatalog({ text: asked.content });
  const words = [
    ...problems.map(({ line, reason }) => `line ${line}: ${reason}`),
    ...unsetVariables.map((name) => `the variable ${name} is not set for the relays`),
  ];
  if (words.length > 0 || !catalog) {
    throw new ServiceError("failed_precondition", `relays would refuse this catalog:\n${words.join("\n")}`);
  }
  const applied = await clients.authQuota.applyCatalog({ ...asked, prices: priceTextsOf(catalog) });
  return {
    text: String(applied.version),
    data: asData(ApplyCatalogResponseSchema, applied),
    hint: "Relays that follow applied catalogs take it within seconds.",
  };
}

async function rollBack(clients: Clients, wanted: Wanted, { author, note }: Authored): Promise<Answer> {
  const { applied } = await clients.authQuota.listCatalogs({});
  const { content } = await clients.authQuota.getCatalog(wanted);
  const words = `back to version ${wanted.version}${wanted.isApplied ? "" : " of a file"}`;
  const named = note === "" ? words : `${words}: ${note}`;
  return await apply(clients, { content, baseVersion: applied[0]?.version ?? 0n, author, note: named });
}
