import { randomUUID } from "node:crypto";
import type { Queryable } from "#shared/stores/postgres.ts";
import { lockCount } from "./lock-count.ts";

/** Where an account has its events sent to. */
export type Webhook = { webhookId: string; accountId: string; url: string; createdAt: Date };

/** A message to one recipient: an address, or the URL of a webhook. */
export type Delivery = {
  deliveryId: string;
  eventId: string;
  accountId: string;
  eventType: string;
  body: string;
  recipient: string;
  /** null: by mail. */
  webhookId: string | null;
  state: "due" | "delivered" | "failed";
  attempts: number;
  dueAt: Date;
  /** What came of the last attempt, for people. */
  result: string;
  createdAt: Date;
};

const columns = `delivery_id AS "deliveryId", event_id AS "eventId", account_id AS "accountId",
  event_type AS "eventType", body, recipient, webhook_id AS "webhookId", state, attempts, due_at AS "dueAt", result,
  created_at AS "createdAt"`;

const webhookColumns = `webhook_id AS "webhookId", account_id AS "accountId", url, created_at AS "createdAt"`;

export type NewWebhook = Pick<Webhook, "webhookId" | "accountId" | "url"> & { sealedSecret: Buffer; createdBy: string };

/** Adds one; false when the account has as many as it may. */
export async function insertWebhook(db: Queryable, webhook: NewWebhook, most: number): Promise<boolean> {
  const { webhookId, accountId, url, sealedSecret, createdBy } = webhook;
  await lockCount(db, "webhook", accountId);
  const { rowCount } = await db.query(
    `INSERT INTO console.webhook (webhook_id, account_id, url, sealed_secret, created_by)
     SELECT $1, $2, $3, $4, $5 WHERE (SELECT count(*) FROM console.webhook WHERE account_id = $2) < $6`,
    [webhookId, accountId, url, sealedSecret, createdBy, most],
  );
  return rowCount === 1;
}

export async function listWebhooks(db: Queryable, accountId: string): Promise<Webhook[]> {
  const statement = `SELECT ${webhookColumns} FROM console.webhook WHERE account_id = $1 ORDER BY created_at`;
  return (await db.query<Webhook>(statement, [accountId])).rows;
}

/** Deletes one of the account, and its deliveries; undefined when there is none with this id. */
export async function deleteWebhook(db: Queryable, accountId: string, webhookId: string): Promise<Webhook | undefined> {
  const statement = `DELETE FROM console.webhook WHERE account_id = $1 AND webhook_id = $2 RETURNING ${webhookColumns}`;
  return (await db.query<Webhook>(statement, [accountId, webhookId])).rows[0];
}

/** The secrets that sign a webhook's messages now, the newest first; none: there is no such webhook. */
export async function listSealedSecrets(db: Queryable, webhookId: string): Promise<Buffer[]> {
  const { rows } = await db.query<{ sealed: Buffer; previous: Buffer | null }>(
    `SELECT sealed_secret AS sealed, CASE WHEN previous_until > now() THEN previous_secret END AS previous
     FROM console.webhook WHERE webhook_id = $1`,
    [webhookId],
  );
  return rows.flatMap(({ sealed, previous }) => (previous === null ? [sealed] : [sealed, previous]));
}

type NewSecret = Pick<Webhook, "accountId" | "webhookId"> & { sealedSecret: Buffer };

/** Gives a webhook of the account another secret; the one before stays for a day. Undefined: there is no such one. */
export async function rotateSecret(db: Queryable, given: NewSecret): Promise<Webhook | undefined> {
  const statement = `UPDATE console.webhook SET previous_secret = sealed_secret,
      previous_until = now() + interval '24 hours', sealed_secret = $3
    WHERE account_id = $1 AND webhook_id = $2 RETURNING ${webhookColumns}`;
  const values = [given.accountId, given.webhookId, given.sealedSecret];
  return (await db.query<Webhook>(statement, values)).rows[0];
}

export type NewEvent = Pick<Delivery, "accountId" | "eventType" | "body">;
export type Recipient = Pick<Delivery, "recipient" | "webhookId">;

/** Has an event sent to each of these. */
export async function insertDeliveries(db: Queryable, event: NewEvent, recipients: Recipient[]): Promise<void> {
  const { accountId, eventType, body } = event;
  await db.query(
    `INSERT INTO console.delivery (delivery_id, event_id, account_id, event_type, body, recipient, webhook_id)
     SELECT gen_random_uuid(), $1, $2, $3, $4, recipient, webhook_id
     FROM unnest($5::text[], $6::uuid[]) AS sent (recipient, webhook_id)`,
    [
      randomUUID(),
      accountId,
      eventType,
      body,
      recipients.map(({ recipient }) => recipient),
      recipients.map(({ webhookId }) => webhookId),
    ],
  );
}

/** Whether one more test of an account's webhooks is not too many: there may be so many in a minute. */
export async function mayTest(db: Queryable, accountId: string, most: number): Promise<boolean> {
  const { rows } = await db.query<{ tests: number }>(
    `SELECT count(*)::int AS tests FROM console.delivery
     WHERE account_id = $1 AND created_at > now() - interval '1 minute' AND event_type = 'test'`,
    [accountId],
  );
  return (rows[0]?.tests ?? 0) < most;
}

/**
 * Takes messages that are due, each for one replica; one of which nothing is heard is due again after two minutes. Of
 * one account it takes so many, whatever waits: webhooks that never answer must not keep others from being told.
 */
export async function takeDue(db: Queryable, limit: number, ofAccount: number): Promise<Delivery[]> {
  const { rows } = await db.query<Delivery>(
    `UPDATE console.delivery SET attempts = attempts + 1, due_at = now() + interval '2 minutes'
     WHERE delivery_id IN (
       SELECT delivery_id FROM console.delivery WHERE state = 'due' AND due_at <= now() AND delivery_id IN (
         SELECT delivery_id FROM (
           SELECT delivery_id, due_at, row_number() OVER (PARTITION BY account_id ORDER BY due_at) AS place
           FROM console.delivery WHERE state = 'due' AND due_at <= now()
         ) AS due WHERE place <= $2 ORDER BY due_at LIMIT $1
       ) FOR UPDATE SKIP LOCKED)
     RETURNING ${columns}`,
    [limit, ofAccount],
  );
  return rows;
}

/** `retrySeconds`: undefined when it is not tried again. */
export type AttemptOutcome = { isDelivered: boolean; result: string; retrySeconds: number | undefined };

/** Notes what came of an attempt. */
export async function recordAttempt(db: Queryable, deliveryId: string, outcome: AttemptOutcome): Promise<void> {
  const { isDelivered, result, retrySeconds } = outcome;
  const state = isDelivered ? "delivered" : retrySeconds === undefined ? "failed" : "due";
  await db.query(
    `UPDATE console.delivery SET state = $2, result = $3, due_at = now() + make_interval(secs => $4)
     WHERE delivery_id = $1`,
    [deliveryId, state, result, retrySeconds ?? 0],
  );
}

/** The newest of an account. */
export async function listDeliveries(db: Queryable, accountId: string, limit: number): Promise<Delivery[]> {
  const statement = `SELECT ${columns} FROM console.delivery WHERE account_id = $1 ORDER BY created_at DESC LIMIT $2`;
  return (await db.query<Delivery>(statement, [accountId, limit])).rows;
}

/** Forgets what was made more than thirty days ago. */
export async function deleteOldDeliveries(db: Queryable, limit: number): Promise<void> {
  await db.query(
    `DELETE FROM console.delivery WHERE delivery_id IN (
       SELECT delivery_id FROM console.delivery WHERE created_at < now() - interval '30 days' LIMIT $1)`,
    [limit],
  );
}
