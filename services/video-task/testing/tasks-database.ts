import { createLog } from "#shared/log.ts";
import { createPool, type Pool } from "#shared/postgres.ts";
import { query } from "#shared/testing/postgres.ts";
import { startStores, type PostgresStore } from "#shared/testing/stores.ts";
import { migrate } from "../store/migrate.ts";

/** The schema `video_task` in a database of its own. */
export type TasksDatabase = AsyncDisposable & {
  /** As the owner of the tables. */
  ownerUrl: string;
  /** As a login that is a member of video_task_rw and nothing else. */
  url: string;
  pool: Pool;
};

/** Makes a database, its schema and a login for the service. */
export async function createTasksDatabase(postgres: PostgresStore): Promise<TasksDatabase> {
  const ownerUrl = await postgres.createDatabase();
  await migrate(ownerUrl, createLog("test", "silent"));
  await query(
    ownerUrl,
    `DO $$ BEGIN
       CREATE ROLE video_task_test LOGIN PASSWORD 'video_task_test';
     EXCEPTION
       WHEN duplicate_object OR unique_violation THEN NULL;
     END $$;
     GRANT video_task_rw TO video_task_test`,
  );
  const login = new URL(ownerUrl);
  login.username = "video_task_test";
  login.password = "video_task_test";
  const pool = createPool(login.href, "video-task", () => undefined);
  return { ownerUrl, url: login.href, pool, [Symbol.asyncDispose]: () => pool.end() };
}

/** A PostgreSQL server with one such database. */
export async function startTasksDatabase(): Promise<TasksDatabase & { postgres: PostgresStore }> {
  await using resources = new AsyncDisposableStack();
  const { postgres } = resources.use(await startStores({ postgres: true }));
  const database = resources.use(await createTasksDatabase(postgres));
  const owned = resources.move();
  return { ...database, postgres, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
