import { hash } from "node:crypto";
import type { PriceText } from "#shared/catalog/price-texts.ts";
import { isTaken, type Database } from "./postgres.ts";

/** A row of auth_quota.applied_catalog; `content` is null where many newer ones are there. */
export type AppliedRow = {
  version: bigint;
  hash: string;
  content: string | null;
  author: string;
  /** The identity of the service or tool that asked, by its certificate; empty without TLS. */
  via: string;
  note: string;
  appliedAt: Date;
};

/** What shall be applied in the place of version `base`; 0: of none. */
export type Application = Pick<AppliedRow, "author" | "via" | "note"> & {
  content: string;
  base: bigint;
  prices: readonly PriceText[];
};

/** What became of an application. */
export type ApplyOutcome =
  | { version: bigint; refusal?: undefined }
  /** Another one was applied since `base`. */
  | { refusal: "overtaken"; version: bigint }
  /** Price versions that had other prices before, at most five. */
  | { refusal: "repriced"; rows: string[] };

const withText = 51;
const listed = 51;

const described = `version::text, hash, author, via, note, applied_at as "appliedAt"`;

type Row = Omit<AppliedRow, "version"> & { version: string };

const fromRow = <R extends { version: string }>(row: R) => ({ ...row, version: BigInt(row.version) });

/** The newest one with its text, older than `before` where that is not 0. */
export async function readApplied(database: Database, before: bigint): Promise<AppliedRow | undefined> {
  const [row] = await database.query<Row>(
    `select ${described}, content from auth_quota.applied_catalog
     where ($1 = 0 or version < $1) and content is not null order by applied_catalog.version desc limit 1`,
    [before],
  );
  return row && fromRow(row);
}

/** The version and hash of the newest one, which is what relays ask for all the time. */
export async function readAppliedHead(database: Database): Promise<Pick<AppliedRow, "version" | "hash"> | undefined> {
  const [row] = await database.query<{ version: string; hash: string }>(
    `select version::text, hash from auth_quota.applied_catalog order by applied_catalog.version desc limit 1`,
    [],
  );
  return row && fromRow(row);
}

/** One of them, with its text. */
export async function readAppliedVersion(database: Database, version: bigint): Promise<AppliedRow | undefined> {
  const [row] = await database.query<Row>(
    `select ${described}, content from auth_quota.applied_catalog where version = $1`,
    [version],
  );
  return row && fromRow(row);
}

/** The newest ones, older than `before` where that is not 0; without their texts. */
export async function listApplied(
  database: Database,
  before: bigint,
): Promise<(Omit<AppliedRow, "content"> & { hasContent: boolean })[]> {
  const rows = await database.query<Omit<Row, "content"> & { hasContent: boolean }>(
    `select ${described}, content is not null as "hasContent" from auth_quota.applied_catalog
     where $1 = 0 or version < $1 order by applied_catalog.version desc limit ${listed}`,
    [before],
  );
  return rows.map(fromRow);
}

/**
 * Applies a catalog as the version after `base`. The version is the key, so of two that have the same base one wins.
 * Whoever asks again, because the answer was lost, is told of the version that was made.
 */
export async function applyCatalog(database: Database, application: Application): Promise<ApplyOutcome> {
  const { content, base, author, via, note } = application;
  const contentHash = hash("sha256", content);
  const outcome = await insertApplied(database, application, contentHash);
  if (outcome?.made) {
    await dropTexts(database);
    return { version: base + 1n };
  }
  if (outcome && outcome.repriced.length > 0) return { refusal: "repriced", rows: outcome.repriced };
  const next = await readAppliedVersion(database, base + 1n);
  const newest = (await readAppliedHead(database))?.version ?? 0n;
  const isSame = next && next.hash === contentHash && next.author === author && next.via === via && next.note === note;
  if (isSame && newest === next.version) return { version: next.version };
  return { refusal: "overtaken", version: newest };
}

/** Undefined: another one was faster. */
async function insertApplied(
  database: Database,
  { content, base, author, via, note, prices }: Application,
  contentHash: string,
): Promise<{ made: boolean; repriced: string[] } | undefined> {
  try {
    const [row] = await database.query<{ made: boolean; repriced: string[] }>(
      `with newest as (select coalesce(max(version), 0) as version from auth_quota.applied_catalog),
       priced as (select * from unnest($7::text[], $8::text[], $9::text[]) as row (model, price_version, prices)),
       repriced as (
         select model, price_version from priced join auth_quota.catalog_price known using (model, price_version)
         where known.prices <> priced.prices order by 1, 2 limit 5
       ),
       applied as (
         insert into auth_quota.applied_catalog (version, hash, content, author, via, note)
         select newest.version + 1, $2, $3, $4, $5, $6 from newest
         where newest.version = $1::bigint and not exists (select from repriced) returning version
       ),
       kept as (
         insert into auth_quota.catalog_price select model, price_version, prices from priced
         where exists (select from applied) on conflict do nothing
       )
       select exists (select from applied) as made,
         array(select model || ' in version ' || price_version from repriced) as repriced`,
      [
        base,
        contentHash,
        content,
        author,
        via,
        note,
        prices.map(({ model }) => model),
        prices.map(({ priceVersion }) => priceVersion),
        prices.map((row) => row.prices),
      ],
    );
    return row;
  } catch (error) {
    if (isTaken(error)) return undefined;
    throw error;
  }
}

async function dropTexts(database: Database): Promise<void> {
  await database.query(
    `update auth_quota.applied_catalog set content = null where content is not null and version <= (
       select max(version) - ${withText} from auth_quota.applied_catalog
     )`,
    [],
  );
}
