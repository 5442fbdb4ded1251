import { createServiceDatabase, type ServiceDatabase } from "#shared/testing/service-database.ts";
import { startStores, type PostgresStore } from "#shared/testing/stores.ts";
import { migrate } from "../store/migrate.ts";

/** The schema `video_task` in a database of its own. */
export type TasksDatabase = ServiceDatabase;

/** Makes a database, its schema and a login for the service. */
export const createTasksDatabase = (postgres: PostgresStore): Promise<TasksDatabase> =>
  createServiceDatabase(postgres, "video_task", migrate);

/** A PostgreSQL server with one such database. */
export async function startTasksDatabase(): Promise<TasksDatabase & { postgres: PostgresStore }> {
  await using resources = new AsyncDisposableStack();
  const { postgres } = resources.use(await startStores({ postgres: true }));
  const database = resources.use(await createTasksDatabase(postgres));
  const owned = resources.move();
  return { ...database, postgres, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
