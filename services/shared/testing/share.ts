import { startStores, type PostgresStore } from "./stores.ts";

type Shared = { started: Promise<AsyncDisposable>; users: number };

/** What is shared, apart from all others. */
export function createSharing() {
  const all = new Map<unknown, Shared>();
  let isKept = false;

  async function leave(key: unknown, shared: Shared): Promise<void> {
    shared.users -= 1;
    if (shared.users > 0 || isKept) return;
    all.delete(key);
    await (await shared.started)[Symbol.asyncDispose]();
  }

  /**
   * What the test files of a process share under a key, since to start one for each costs more than most of them do. It
   * ends with its last user, or with `keepShared` when that is later. Rejects when it cannot be started.
   */
  async function share<T extends AsyncDisposable>(key: unknown, start: () => Promise<T>): Promise<T> {
    const shared = all.get(key) ?? { started: start(), users: 0 };
    all.set(key, shared);
    shared.users += 1;
    const started = (await shared.started) as T;
    return { ...started, [Symbol.asyncDispose]: () => leave(key, shared) };
  }

  /** Keeps what is shared between one user and the next, until disposal. */
  function keepShared(): AsyncDisposable {
    isKept = true;
    return {
      [Symbol.asyncDispose]: async () => {
        isKept = false;
        const left = [...all.values()].filter(({ users }) => users === 0);
        all.clear();
        for (const { started } of left) await (await started)[Symbol.asyncDispose]();
      },
    };
  }

  return { share, keepShared };
}

export const { share, keepShared } = createSharing();

/** A PostgreSQL server of which one may only have databases. */
export type Databases = Pick<PostgresStore, "createDatabase">;

/** Databases on a server that the test files of a process share: for tests that neither kill nor configure it. */
export const sharePostgres = (among = share): Promise<Databases & AsyncDisposable> =>
  among("postgres", async () => {
    const stores = await startStores({ postgres: true });
    const { createDatabase } = stores.postgres;
    return { createDatabase, [Symbol.asyncDispose]: () => stores[Symbol.asyncDispose]() };
  });
