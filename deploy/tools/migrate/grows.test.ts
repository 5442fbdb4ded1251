import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { createLog } from "#shared/process/log.ts";
import { query } from "#shared/testing/postgres.ts";
import { startStores } from "#shared/testing/stores.ts";
import { migrateSchemas } from "./schemas.ts";

const services = new URL("../../../services/", import.meta.url);

/** The tables that the section "What grows" of a service's README names in its first column. */
async function namedBy(service: string): Promise<string[]> {
  const text = await readFile(new URL(`${service}/README.md`, services), "utf8");
  const [, section = ""] = /^## What grows\n(.*?)(?=^## )/ms.exec(text) ?? [];
  const cells = section.split("\n").flatMap((line) => /^\| (`.*?) \|/.exec(line)?.[1] ?? []);
  return cells.flatMap((cell) => [...cell.matchAll(/`([a-z_]+)`/g)].map(([, name = ""]) => name));
}

test("the README of each service says of each of its tables how far it grows, and of no other", async () => {
  await using stores = await startStores({ postgres: true });
  const url = await stores.postgres.createDatabase();
  await migrateSchemas(url, createLog("test", "silent"));
  for (const schema of ["auth_quota", "billing", "console", "video_task"]) {
    const { rows } = await query(
      url,
      `SELECT relname AS name FROM pg_class
       WHERE relnamespace = '${schema}'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
         AND relname NOT LIKE '%migration%' ORDER BY 1`,
    );
    const named = await namedBy(schema.replace("_", "-"));
    assert.deepEqual(
      named.toSorted(),
      rows.map(({ name }) => name),
      schema,
    );
  }
});
