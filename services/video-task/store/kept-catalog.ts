import { hash } from "node:crypto";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { CatalogKeeper, KeptCatalog } from "#shared/catalog/last-good.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { Pool } from "#shared/stores/postgres.ts";

type Row = Omit<KeptCatalog, "version" | "takenAt"> & { version: string; takenAt: Date };

/** Keeps catalogs in the service's own database, the newest alone. */
export function keeperIn(pool: Pick<Pool, "query">): CatalogKeeper {
  return {
    keepCatalog: ({ content, proof, takenBy }) =>
      pool.query(
        `INSERT INTO video_task.kept_catalog AS kept (hash, content, proof, taken_by) VALUES ($1, $2, $3, $4)
         ON CONFLICT (only_row) DO UPDATE SET version = kept.version + 1, hash = excluded.hash,
           content = excluded.content, proof = excluded.proof, taken_by = excluded.taken_by, taken_at = now()
         WHERE (kept.hash, kept.proof) <> (excluded.hash, excluded.proof)`,
        [hash("sha256", content), content, Buffer.from(proof), takenBy],
      ),
    getKeptCatalog: async () => {
      const row = await readRow(pool);
      if (!row) throw new ServiceError("not_found", "no catalog is kept");
      return { ...row, version: BigInt(row.version), takenAt: timestampFromDate(row.takenAt) };
    },
  };
}

async function readRow(pool: Pick<Pool, "query">): Promise<Row | undefined> {
  try {
    const { rows } = await pool.query<Row>(
      `SELECT version::text, hash, content, proof, taken_by AS "takenBy", taken_at AS "takenAt"
       FROM video_task.kept_catalog`,
    );
    return rows[0];
  } catch (error) {
    throw new ServiceError("unavailable", "PostgreSQL does not answer", error);
  }
}
