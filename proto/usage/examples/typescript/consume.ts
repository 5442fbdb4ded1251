// Writes usage events to PostgreSQL, each once; on SIGTERM it stops and prints the totals of the accounts.
// NATS_URL with user and password, DATABASE_URL with the tables of ../schema.sql; the stream's consumer is there.
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { jetstream, type JsMsg } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import pg from "pg";
// Yours is generated from usage.proto: buf generate with protoc-gen-es.
import {
  RecordKind,
  UsageBatchSchema,
  type UsageRecorded,
  UsageRecordedSchema,
  UsageSchema,
} from "../../../gen/usage/v1/usage_pb.ts";

const say = (words: unknown): void => void process.stderr.write(`${String(words)}\n`);
const retryMs = 5_000;
const insertEvent =
  "INSERT INTO usage_event VALUES ($1, $2, $3, $4, $5, $6, to_timestamp($7), $8) ON CONFLICT DO NOTHING";
const insertDeadLetter = "INSERT INTO dead_letter VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";

const natsUrl = new URL(process.env["NATS_URL"] ?? "nats://127.0.0.1:4222");
const pool = new pg.Pool({ connectionString: process.env["DATABASE_URL"], max: 2 });
pool.on("error", say);
const connection = await connect({
  servers: natsUrl.host,
  user: decodeURIComponent(natsUrl.username),
  pass: decodeURIComponent(natsUrl.password),
  // The only subjects that this user may read.
  inboxPrefix: "_INBOX_billing-team",
  maxReconnectAttempts: -1,
});
const consumer = await jetstream(connection).consumers.get("USAGE_V1", process.env["CONSUMER"] ?? "billing-team");
const messages = await consumer.consume({ max_messages: 64 });
process.once("SIGTERM", () => void messages.close());
say("reading");

for await (const message of messages) {
  try {
    await store(message);
    // After the commit: whoever dies in between gets the message again and finds its events stored.
    message.ack();
  } catch (error) {
    say(error);
    message.nak(retryMs);
  }
}

const { rows } = await pool.query("SELECT line FROM account_line ORDER BY line");
for (const { line } of rows) process.stdout.write(`${line}\n`);
await connection.drain();
await pool.end();

/** Stores what a message holds in one transaction: its events, and those that must be looked at as dead letters. */
async function store({ data, seq }: JsMsg): Promise<void> {
  const good: UsageRecorded[] = [];
  const dead: { position: number; reason: string; payload: Uint8Array }[] = [];
  for (const [position, event] of readEvents(data).entries()) {
    if ("reason" in event) dead.push({ position: -1, reason: event.reason, payload: data });
    else {
      const reason = problemOf(event);
      if (reason === undefined) good.push(event);
      else dead.push({ position, reason, payload: toBinary(UsageRecordedSchema, event) });
    }
  }
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    for (const event of good) await client.query(insertEvent, valuesOf(event));
    for (const { position, reason, payload } of dead) {
      await client.query(insertDeadLetter, [String(seq), position, reason, payload]);
    }
    await client.query("COMMIT");
    client.release();
  } catch (error) {
    client.release(true);
    throw error;
  }
}

function readEvents(data: Uint8Array): (UsageRecorded | { reason: string })[] {
  try {
    return fromBinary(UsageBatchSchema, data).events;
  } catch (error) {
    return [{ reason: String(error) }];
  }
}

// Unknown kinds, causes and sources are numbers like the others: the view leaves unknown kinds out of the totals.
function valuesOf(event: UsageRecorded): unknown[] {
  const { rid, kind, accountId, costNanos, endCause, usageSource, endedAt } = event;
  if (!(kind in RecordKind)) say(`${rid}: kind ${kind} is new, see whether it changes charges`);
  const endedSeconds = endedAt ? Number(endedAt.seconds) + endedAt.nanos / 1e9 : null;
  const bytes = toBinary(UsageRecordedSchema, event);
  return [rid, kind, accountId, String(costNanos), endCause, usageSource, endedSeconds, bytes];
}

/** Why a person must look at an event; undefined when it may be stored. */
function problemOf({ rid, accountId, usage, unitPriceNanos, costNanos }: UsageRecorded): string | undefined {
  if (!/^[0-9a-f-]{36}$/.test(rid)) return "rid";
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(accountId)) return "account_id";
  // A newer schema may have a bucket that is unknown here; cost_nanos has it in the sum.
  if (usage?.$unknown || unitPriceNanos?.$unknown) return undefined;
  let millionths = 0n;
  for (const { localName } of UsageSchema.fields) {
    const bucket = localName as "inputTokens";
    millionths += (usage?.[bucket] ?? 0n) * (unitPriceNanos?.[bucket] ?? 0n);
  }
  return (millionths + 999_999n) / 1_000_000n === costNanos ? undefined : "cost_nanos";
}
