import { createServiceDatabase, type ServiceDatabase } from "#shared/testing/service-database.ts";
import { type Databases, sharePostgres } from "#shared/testing/share.ts";
import { startStores, type PostgresStore } from "#shared/testing/stores.ts";
import { migrate } from "../store/migrate.ts";

/** The schema `video_task` in a database of its own. */
export type TasksDatabase = ServiceDatabase;

/** Makes a database, its schema and a login for the service. */
export const createTasksDatabase = (postgres: Databases): Promise<TasksDatabase> =>
  createServiceDatabase(postgres, "video_task", migrate);

/** One such database on the PostgreSQL server that the test files of this process share. */
export async function startTasksDatabase(): Promise<TasksDatabase & { postgres: Databases }> {
  await using resources = new AsyncDisposableStack();
  const postgres = resources.use(await sharePostgres());
  const database = resources.use(await createTasksDatabase(postgres));
  const owned = resources.move();
  return { ...database, postgres, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** A PostgreSQL server of the test's own, which it may kill, with one such database. */
export async function startTasksDatabaseAlone(): Promise<TasksDatabase & { postgres: PostgresStore }> {
  await using resources = new AsyncDisposableStack();
  const { postgres } = resources.use(await startStores({ postgres: true }));
  const database = resources.use(await createTasksDatabase(postgres));
  const owned = resources.move();
  return { ...database, postgres, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
