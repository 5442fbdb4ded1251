import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { create, fromBinary, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { RecordKind, UsageBatchSchema, UsageRecordedSchema, type UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import { holdSecret, withProof } from "#shared/money/hold-proof.ts";
import { createRid } from "#shared/money/rid.ts";
import { encodeUsageBatch, fundsStream, fundsSubject, usageStream, usageSubject } from "#shared/stores/usage-stream.ts";
import { connectNats } from "#shared/testing/nats-login.ts";
import { until } from "#shared/testing/until.ts";
import { chat, makeCall } from "./ask.ts";
import { startWorld } from "./world.ts";

// Whoever may publish usage, and reads all that others publish, still charges nobody.

const proofKey = Buffer.alloc(32, 9);
const own = { HOLD_PROOF_KEYS: proofKey.toString("base64") };
const world = await startWorld({
  serviceEnvironment: { billing: { OUTBOX_AGE_MS: "1000", ...own }, "auth-quota": own },
});
after(() => world[Symbol.asyncDispose]());
const { natsUrls, urls } = world.stack.stores;
const forger = await connectNats(natsUrls.relay);
after(() => forger.close());
const connection = await connectNats(urls.nats);
after(() => connection.close());
const manager = await jetstreamManager(connection);

type Change = Exclude<MessageInitShape<typeof UsageRecordedSchema>, UsageRecorded>;

/** A record with other content, and the proof that it had. */
const changed = (record: UsageRecorded, change: Change): Uint8Array =>
  toBinary(UsageRecordedSchema, create(UsageRecordedSchema, { ...record, ...change } as Change));

const bytesOf = ({ seq }: { seq: number }): Promise<Uint8Array> =>
  manager.streams.getMessage(usageStream, { seq }).then((message) => message?.data ?? assert.fail(`no message ${seq}`));

/** The last event that the stream holds. */
async function lastEvent(): Promise<{ event: UsageRecorded; seq: number }> {
  const { last_seq: seq } = (await manager.streams.info(usageStream)).state;
  const [event] = fromBinary(UsageBatchSchema, await bytesOf({ seq })).events;
  return { event: event ?? assert.fail("an empty batch"), seq };
}

const publish = (...records: Uint8Array[]) => jetstream(forger).publish(usageSubject, encodeUsageBatch(records));

const quarantined = async (rid: string): Promise<{ reason: string; quarantineId: bigint }[]> =>
  (await world.billing.listQuarantine({ onlyOpen: true, limit: 1_000 })).records.filter((record) => record.rid === rid);

async function untilRefused(rid: string, reason: RegExp): Promise<bigint> {
  const found = await until(`${rid} is quarantined`, async () => (await quarantined(rid))[0]);
  assert.match(found?.reason ?? "", reason);
  return found?.quarantineId ?? 0n;
}

const counter = async (name: string, labels = ""): Promise<number> => {
  const text = await (await fetch(`${world.stack.addresses.opsUrls.billing}/metrics`)).text();
  return Number(new RegExp(`^${name}(?:\\{[^}]*${labels}[^}]*\\})? (\\S+)$`, "m").exec(text)?.[1] ?? 0);
};

describe("stolen: the relay's or video-task's NATS login: an event of no hold is on nobody's bill", () => {
  it("of a call that never was, with no proof, with any, or with one that the forger has made", async () => {
    const victim = await world.createCustomer();
    const { rid } = await makeCall(world.relayUrl, victim.secret, { side: chat });
    await world.untilBooked(victim.accountId, rid);
    const { event } = await lastEvent();
    const before = await world.moneyOf(victim.accountId);
    const forged = [new Uint8Array(), Buffer.alloc(16, 7), event.holdProof].map((holdProof) =>
      changed(event, { rid: createRid(), holdProof }),
    );
    const rids = forged.map((bytes) => fromBinary(UsageRecordedSchema, bytes).rid);
    const own = createRid();
    const body = toBinary(
      UsageRecordedSchema,
      create(UsageRecordedSchema, { ...event, rid: own, holdProof: new Uint8Array() } as Change),
    );
    const { accountId, keyId } = victim;
    forged.push(withProof(holdSecret(Buffer.alloc(32, 1), { rid: own, accountId, keyId }), body));
    await publish(...forged);
    for (const one of [...rids, own]) await untilRefused(one, /^hold_unproven: /);
    assert.deepEqual(await world.moneyOf(accountId), before);
    assert.equal((await world.ledgerOf(accountId)).length, 1);
    assert.equal(await counter("billing_quarantined_total", "hold_unproven"), 4);
  });

  it("nor does JetStream do for the forger what it may not ask for itself, by a subject to answer on", async () => {
    await world.createCustomer();
    await until("a line by hand is on its stream", async () => {
      const { messages } = (await manager.streams.info(fundsStream)).state;
      return messages > 0;
    });
    const before = (await manager.streams.info(usageStream)).state.last_seq;
    const asked = [`$JS.API.STREAM.PURGE.${fundsStream}`, `$JS.API.STREAM.MSG.DELETE.${fundsStream}`];
    for (const reply of [...asked, fundsSubject]) forger.publish(usageSubject, new Uint8Array(), { reply });
    await until("all are answered", async () => {
      const { last_seq } = (await manager.streams.info(usageStream)).state;
      return last_seq >= before + 3;
    });
    const { state } = await manager.streams.info(fundsStream);
    assert.deepEqual([state.first_seq, state.num_deleted ?? 0], [1, 0]);
  });

  it("of a real call for another account, or for more money; the call itself is booked all the same", async () => {
    const [payer, other] = [await world.createCustomer(), await world.createCustomer()];
    await world.stack.services.billing.kill("SIGTERM");
    const { rid } = await makeCall(world.relayUrl, payer.secret, { side: chat });
    const { event, seq } = await until("it is published", async () => {
      const last = await lastEvent();
      return last.event.rid === rid ? last : undefined;
    }).then((found) => found ?? assert.fail());
    // The forger is first: the stream has lost the event itself, which the outbox publishes again.
    await manager.streams.deleteMessage(usageStream, seq);
    const { usage, unitPriceNanos } = event;
    assert.ok(usage && unitPriceNanos);
    const dear = { ...unitPriceNanos, requests: 5_000_000_000_000_000n };
    const more: Change = {
      usage: { ...usage, requests: 1n },
      unitPriceNanos: dear,
      costNanos: event.costNanos + 5_000_000_000n,
    };
    await publish(
      changed(event, { accountId: other.accountId, keyId: other.keyId }),
      changed(event, more),
      changed(event, { kind: RecordKind.PROVISIONAL, ...more }),
    );
    await world.stack.services.billing.restart();
    const line = await world.untilBooked(payer.accountId, rid);
    assert.equal(line.amountNanos, -event.costNanos);
    assert.equal((await quarantined(rid)).length, 3);
    assert.equal((await world.ledgerOf(payer.accountId)).length, 1);
    assert.equal((await world.ledgerOf(other.accountId)).length, 0);
    assert.equal((await world.moneyOf(other.accountId)).availableNanos, 10_000_000_000n);
  });

  it("stolen: HOLD_PROOF_KEYS, with a NATS login: unless it is proven by the key of the installation", async () => {
    const victim = await world.createCustomer();
    const { rid } = await makeCall(world.relayUrl, victim.secret, { side: chat });
    await world.untilBooked(victim.accountId, rid);
    const { event } = await lastEvent();
    const forged = createRid();
    const change = { ...event, rid: forged, holdProof: new Uint8Array() } as Change;
    const { accountId, keyId } = victim;
    const secret = holdSecret(proofKey, { rid: forged, accountId, keyId });
    await publish(withProof(secret, toBinary(UsageRecordedSchema, create(UsageRecordedSchema, change))));
    await world.untilBooked(accountId, forged);
    assert.equal((await world.ledgerOf(accountId)).length, 2);
  });

  it("but a person who has looked at it may book it", async () => {
    const customer = await world.createCustomer();
    const { rid } = await makeCall(world.relayUrl, customer.secret, { side: chat });
    await world.untilBooked(customer.accountId, rid);
    const { event } = await lastEvent();
    const other = createRid();
    await publish(changed(event, { rid: other }));
    const quarantineId = await untilRefused(other, /^hold_unproven: /);
    const { records } = await world.billing.retryQuarantine({ quarantineIds: [quarantineId] });
    assert.deepEqual(
      records.map(({ isBooked, reason }) => [isBooked, reason]),
      [[true, ""]],
    );
    assert.equal((await world.ledgerOf(customer.accountId)).length, 2);
    const duplicates = await counter("billing_duplicates_total");
    await publish(changed(event, { rid: other }));
    await until(
      "it is known when it comes again",
      async () => (await counter("billing_duplicates_total")) > duplicates,
    );
    assert.deepEqual(await quarantined(other), []);
  });
});
