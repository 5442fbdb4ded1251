import { readFileSync } from "node:fs";
import type { CatalogBuild, CatalogSource } from "./catalog-schema.ts";
import type { DialectName } from "./dialects/dialect.ts";

export type Upstream = {
  name: string;
  baseUrl: URL;
  dialects: DialectName[];
  credential: string;
  connectTimeoutMs: number;
  firstByteTimeoutMs: number;
  idleTimeoutMs: number;
  maxConnections: number;
};

function readCredential(
  source: CatalogSource["upstreams"][string]["credential"],
  environment: NodeJS.ProcessEnv,
): string {
  if ("env" in source) {
    const value = environment[source.env];
    if (!value) throw new Error(`the variable ${source.env} is not set`);
    return value;
  }
  const value = readFileSync(source.file, "utf8").trim();
  if (value === "") throw new Error(`the file ${source.file} is empty`);
  return value;
}

/** Reads the upstreams of a catalog and their credentials; what is wrong joins the problems. */
export function buildUpstreams({ source, environment, problems }: CatalogBuild): Map<string, Upstream> {
  const upstreams = new Map<string, Upstream>();
  for (const [name, entry] of Object.entries(source.upstreams)) {
    try {
      upstreams.set(name, {
        name,
        baseUrl: new URL(entry.base_url),
        dialects: entry.dialects,
        credential: readCredential(entry.credential, environment),
        connectTimeoutMs: entry.connect_timeout_ms,
        firstByteTimeoutMs: entry.first_byte_timeout_ms,
        idleTimeoutMs: entry.idle_timeout_ms,
        maxConnections: entry.max_connections,
      });
    } catch (error) {
      problems.push({ path: ["upstreams", name], reason: error instanceof Error ? error.message : String(error) });
    }
  }
  return upstreams;
}
