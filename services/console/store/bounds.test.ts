import assert from "node:assert/strict";
import { test } from "node:test";
import { createPool } from "#shared/stores/postgres.ts";
import { sharePostgres } from "#shared/testing/share.ts";
import { createConsoleDatabase } from "../testing/console.ts";
import { deleteOldDeliveries } from "./deliveries.ts";
import { deleteEndedAttempts } from "./identities.ts";
import { forgetLinks } from "./invitations.ts";
import { deleteEndedSessions } from "./sessions.ts";

test("sessions, attempts, deliveries and links that are over are deleted, so many at once, and no others", async () => {
  await using postgres = await sharePostgres();
  await using database = await createConsoleDatabase(postgres);
  await using pool = createPool(database.url, "test", () => undefined);
  const count = async (table: string): Promise<number> => {
    const [row] = await database.sql(`SELECT count(*)::int AS rows FROM console.${table}`);
    return Number(row?.["rows"]);
  };
  await database.sql(`
    INSERT INTO console.person (person_id, email, password_hash, is_operator)
    VALUES (gen_random_uuid(), 'a@b.example', '', false);
    INSERT INTO console.session (session_id, token_hash, person_id, is_complete, address, browser, created_at)
    SELECT gen_random_uuid(), sha256(n::text::bytea), person_id, true, '', '', now() - make_interval(hours => 7 + n)
    FROM (SELECT person_id FROM console.person LIMIT 1) AS p, generate_series(1, 9) AS n;
    INSERT INTO console.oidc_attempt (state_hash, browser_hash, sealed, next, expires_at)
    SELECT sha256(n::text::bytea), sha256(''), '', '/', now() + make_interval(mins => n - 5)
    FROM generate_series(1, 9) AS n`);
  assert.equal(await deleteEndedSessions(pool, 3), 3);
  assert.equal(await deleteEndedSessions(pool, 3), 2);
  assert.equal(await count("session"), 4);
  assert.equal(await deleteEndedAttempts(pool, 3), 3);
  assert.equal(await deleteEndedAttempts(pool, 3), 2);
  assert.equal(await count("oidc_attempt"), 4);
  await database.sql(`
    INSERT INTO console.delivery (delivery_id, event_id, account_id, event_type, body, recipient, created_at)
    SELECT gen_random_uuid(), gen_random_uuid(), 'acme', 'test', '{}', 'a@b.example',
      now() - make_interval(days => 25 + n)
    FROM generate_series(1, 9) AS n`);
  await deleteOldDeliveries(pool, 3);
  assert.equal(await count("delivery"), 6);
  await deleteOldDeliveries(pool, 3);
  assert.equal(await count("delivery"), 4);
  await database.sql(`
    INSERT INTO console.invitation (invitation_id, token_hash, email, role, invited_by, expires_at)
    SELECT gen_random_uuid(), sha256(n::text::bytea), 'a@b.example', 'operator', person_id,
      now() - make_interval(days => 395 + n)
    FROM (SELECT person_id FROM console.person LIMIT 1) AS p, generate_series(1, 9) AS n;
    INSERT INTO console.password_reset (reset_id, token_hash, person_id, made_by, expires_at)
    SELECT invitation_id, token_hash, invited_by, invited_by, expires_at FROM console.invitation`);
  assert.equal(await forgetLinks(pool, 3), 6n);
  assert.equal(await forgetLinks(pool, 3), 4n);
  assert.deepEqual([await count("invitation"), await count("password_reset")], [4, 4]);
});
