import type { Queryable } from "#shared/stores/postgres.ts";

/** What an owner may have only so many of. */
type Counted = "domain" | "invitation" | "member" | "session" | "top-up" | "webhook";

/**
 * Has all who add one of these for the same owner wait for each other until the end of the transaction. Without it,
 * requests that come at once would all count what was there before any of them. `owner` is an account or a person;
 * null: the operators.
 */
export async function lockCount(db: Queryable, what: Counted, owner: string | null): Promise<void> {
  const name = `console.${what}:${owner ?? ""}`;
  await db.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [name]);
}
