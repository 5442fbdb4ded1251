import { hash } from "node:crypto";
import type { Database } from "./postgres.ts";

/** A row of auth_quota.catalog; `version` grows by one or more with each other catalog. */
export type CatalogRow = {
  version: bigint;
  hash: string;
  content: string;
  proof: Buffer;
  takenBy: string;
  takenAt: Date;
};

const keptCatalogs = 50;

/** The catalog that a relay has taken last; undefined before the first. */
export async function readNewestCatalog(database: Database): Promise<CatalogRow | undefined> {
  const [row] = await database.query<Omit<CatalogRow, "version"> & { version: string }>(
    `select catalog_id::text as "version", hash, content, proof, taken_by as "takenBy", taken_at as "takenAt"
     from auth_quota.catalog order by catalog_id desc limit 1`,
    [],
  );
  return row && { ...row, version: BigInt(row.version) };
}

type Described = Omit<CatalogRow, "content" | "proof">;

const described = `catalog_id::text as "version", hash, taken_by as "takenBy", taken_at as "takenAt"`;

/** All that are kept, newest first, without their texts. */
export async function listKept(database: Database): Promise<Described[]> {
  const rows = await database.query<Omit<Described, "version"> & { version: string }>(
    `select ${described} from auth_quota.catalog order by catalog_id desc limit ${keptCatalogs + 1}`,
    [],
  );
  return rows.map((row) => ({ ...row, version: BigInt(row.version) }));
}

/** One of them with its text. */
export async function readKept(
  database: Database,
  version: bigint,
): Promise<(Described & Pick<CatalogRow, "content">) | undefined> {
  const [row] = await database.query<Omit<Described, "version"> & { version: string; content: string }>(
    `select ${described}, content from auth_quota.catalog where catalog_id = $1`,
    [version],
  );
  return row && { ...row, version: BigInt(row.version) };
}

/** Keeps a catalog as the newest, unless it is so already, and the fifty before it. */
export async function keepCatalog(
  database: Database,
  { content, proof, takenBy }: Pick<CatalogRow, "content" | "takenBy"> & { proof: Uint8Array },
): Promise<void> {
  await database.query(
    `with newest as (select hash, proof from auth_quota.catalog order by catalog_id desc limit 1)
     insert into auth_quota.catalog (hash, content, proof, taken_by)
     select $1, $2, $3, $4 where not exists (select from newest where hash = $1 and proof = $3)`,
    [hash("sha256", content), content, Buffer.from(proof), takenBy],
  );
  await database.query(
    `delete from auth_quota.catalog where catalog_id <= (
       select catalog_id from auth_quota.catalog order by catalog_id desc offset ${keptCatalogs} limit 1
     )`,
    [],
  );
}
