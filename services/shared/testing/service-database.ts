import { createLog, type Logger } from "../process/log.ts";
import { createPool, type Pool } from "../stores/postgres.ts";
import { query } from "./postgres.ts";
import type { Databases } from "./share.ts";

/** A service's schema in a database of its own. */
export type ServiceDatabase = AsyncDisposable & {
  /** As the owner of the tables. */
  ownerUrl: string;
  /** As a login that is a member of the service's role and nothing else. */
  url: string;
  pool: Pool;
};

type Migrate = (ownerUrl: string, log: Logger) => Promise<void>;

// By server, which its function stands for, and by schema.
const templates = new WeakMap<Databases["createDatabase"], Map<string, Promise<string>>>();

/** Makes a database, the schema of `<schema>_rw` in it, and a login for the service. */
export async function createServiceDatabase(
  postgres: Databases,
  schema: string,
  migrate: Migrate,
): Promise<ServiceDatabase> {
  const ofServer = templates.get(postgres.createDatabase) ?? new Map<string, Promise<string>>();
  templates.set(postgres.createDatabase, ofServer);
  const template = ofServer.get(schema) ?? makeTemplate(postgres, schema, migrate);
  ofServer.set(schema, template);
  const ownerUrl = await postgres.createDatabase(await template);
  const name = loginOf(schema);
  const login = new URL(ownerUrl);
  login.username = name;
  login.password = name;
  const pool = createPool(login.href, name, () => undefined);
  return { ownerUrl, url: login.href, pool, [Symbol.asyncDispose]: () => pool.end() };
}

const loginOf = (schema: string): string => `${schema}_test`;

/**
 * Makes a database with the schema that nobody uses, and the login, which is the server's: to copy the database takes
 * a third of the work of one more migration, and most tests begin with one.
 */
async function makeTemplate({ createDatabase }: Databases, schema: string, migrate: Migrate): Promise<string> {
  const ownerUrl = await createDatabase();
  await migrate(ownerUrl, createLog("test", "silent"));
  const name = loginOf(schema);
  await query(
    ownerUrl,
    `DO $$ BEGIN
       CREATE ROLE ${name} LOGIN PASSWORD '${name}';
     EXCEPTION
       WHEN duplicate_object OR unique_violation THEN NULL;
     END $$;
     GRANT ${schema}_rw TO ${name}`,
  );
  return ownerUrl;
}
