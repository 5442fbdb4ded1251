import assert from "node:assert/strict";
import { test } from "node:test";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { until } from "#shared/testing/until.ts";
import { accountsOf, connected, lookup, numbered, openSession, ridsOf, settle } from "../testing/quota-line.ts";
import { echo, echoOf, startQuotaServer } from "../testing/quota-server.ts";

test("asks of one event-loop turn travel in one batch, and each gets its own result", async () => {
  await using server = await startQuotaServer(echo);
  await using session = openSession(server.port);
  await connected(session);
  const rids = numbered(64);
  const results = await Promise.all(rids.map((rid) => session.ask(lookup(rid))));
  assert.deepEqual(accountsOf(results), rids);
  assert.deepEqual(ridsOf(server.batches), [rids]);
  await session.ask(lookup("later"));
  assert.deepEqual(ridsOf(server.batches), [rids, ["later"]]);
  assert.equal(server.batches[0]?.relaySession, "session-1");
  assert.equal(session.queued(), 0);
});

test("batches that are answered out of order give each ask its own result", async () => {
  await using server = await startQuotaServer(() => undefined);
  await using session = openSession(server.port);
  await until("the stream is there", () => server.heartbeats.length > 0);
  const first = session.ask(lookup("first"));
  await until("the first batch is there", () => server.batches.length === 1);
  const second = session.ask(lookup("second"));
  await until("the second batch is there", () => server.batches.length === 2);
  for (const { batch, operations } of server.batches.toReversed())
    server.streams[0]?.answer(batch, operations.map(echoOf));
  assert.deepEqual(accountsOf(await Promise.all([first, second])), ["first", "second"]);
});

test("tells ride along with the next ask, or go out by themselves after a moment", async () => {
  await using server = await startQuotaServer(echo);
  await using session = openSession(server.port, { lingerMs: 50 });
  await connected(session);
  const told = session.tell(settle("told"));
  const asked = session.ask(lookup("asked"));
  await Promise.all([told, asked]);
  assert.deepEqual(ridsOf(server.batches), [["told", "asked"]]);
  await Promise.all([session.tell(settle("alone-1")), session.tell(settle("alone-2"))]);
  assert.deepEqual(ridsOf(server.batches).at(-1), ["alone-1", "alone-2"]);
});

test("an answer does not send what is still being gathered", async () => {
  await using server = await startQuotaServer(() => undefined);
  await using session = openSession(server.port, { lingerMs: 60_000 });
  await until("the stream is there", () => server.heartbeats.length > 0);
  const first = session.ask(lookup("first"));
  await until("the first batch is there", () => server.batches.length === 1);
  void session.tell(settle("told"));
  server.streams[0]?.answer(server.batches[0]?.batch ?? 0n, [{ verdict: Verdict.OK }]);
  await first;
  void session.ask(lookup("second"));
  await until("the second batch is there", () => server.batches.length === 2);
  assert.deepEqual(ridsOf(server.batches), [["first"], ["told", "second"]]);
});

test("at most 256 batches are under way, the next one leaves when one of them is answered", async () => {
  await using server = await startQuotaServer(({ operations }) => (operations.length === 0 ? [] : undefined));
  await using session = openSession(server.port, { lingerMs: 60_000 });
  await connected(session);
  for (const rid of numbered(258)) {
    void session.ask(lookup(rid));
    await new Promise((resolve) => setImmediate(resolve));
  }
  await until("256 are there", () => server.batches.length >= 256);
  assert.equal(session.queued(), 258);
  server.streams[0]?.answer(server.batches[0]?.batch ?? 0n, [{ verdict: Verdict.OK }]);
  await until("the rest is there", () => server.batches.length > 256);
  assert.deepEqual(ridsOf(server.batches).slice(255), [["rid-255"], ["rid-256", "rid-257"]]);
});

test("more than 512 operations are split, in order", async () => {
  await using server = await startQuotaServer(echo);
  await using session = openSession(server.port);
  await connected(session);
  const rids = numbered(1_300);
  const results = await Promise.all(rids.map((rid) => session.ask(lookup(rid))));
  assert.deepEqual(accountsOf(results), rids);
  assert.deepEqual(
    server.batches.map(({ operations }) => operations.length),
    [512, 512, 276],
  );
});
