import assert from "node:assert/strict";
import { test } from "node:test";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { until } from "#shared/testing/until.ts";
import { accountsOf, connected, lookup, numbered, openSession, ridsOf, settle } from "../testing/quota-line.ts";
import { echo, echoOf, startQuotaServer, type ServerStream } from "../testing/quota-server.ts";

/** What a process says that stops; to no batch. */
const tellStopping = (stream: ServerStream | undefined): void => stream?.answer(0n, [], { isStopping: true });

test("a stream whose server stops is left for another one, which has answered before: nothing is sent twice", async () => {
  await using server = await startQuotaServer(echo);
  await using session = openSession(server.port);
  await connected(session);
  await session.ask(lookup("before"));
  tellStopping(server.streams[0]);
  await until("the first stream is left", () => server.streams[0]?.isLeft === true);
  assert.ok(session.isConnected());
  await session.ask(lookup("after"));
  assert.deepEqual(ridsOf(server.batches), [["before"], ["after"]]);
  assert.equal(server.streams.length, 2);
});

test("until another server has answered, the one that stops is asked", async () => {
  let isFound = false;
  await using server = await startQuotaServer((request, stream) =>
    isFound || stream === server.streams[0] ? echo(request, stream) : undefined,
  );
  await using session = openSession(server.port);
  await connected(session);
  tellStopping(server.streams[0]);
  await until("another stream is opened", () => server.streams.length === 2);
  for (const rid of numbered(20)) assert.equal((await session.ask(lookup(rid))).verdict, Verdict.OK);
  assert.ok(session.isConnected() && session.isReachable());
  assert.equal(server.streams[0]?.isLeft, false);
  isFound = true;
  server.streams[1]?.answer(1_000n, []);
  await until("the first stream is left", () => server.streams[0]?.isLeft === true);
  assert.equal((await session.ask(lookup("after"))).verdict, Verdict.OK);
});

test("what a server that stops has in hand is answered before the next one is sent anything", async () => {
  const order: string[] = [];
  await using server = await startQuotaServer((request, stream) => {
    const [rid] = ridsOf([request]).flat();
    if (rid !== undefined) order.push(`${rid} at ${server.streams.indexOf(stream)}`);
    return rid === "slow" ? undefined : echo(request, stream);
  });
  await using session = openSession(server.port, { lingerMs: 1 });
  await connected(session);
  const slow = session.ask(lookup("slow"));
  await until("it is in hand", () => server.batches.length === 1);
  tellStopping(server.streams[0]);
  await until("another stream is opened", () => server.heartbeats.length === 2);
  const later = session.tell(settle("later"));
  await until("it waits", () => session.queued() === 2);
  const [batch] = server.batches;
  server.streams[0]?.answer(batch?.batch ?? 0n, batch?.operations.map(echoOf) ?? [], { isStopping: true });
  assert.deepEqual(accountsOf(await Promise.all([slow, later])), ["slow", "later"]);
  assert.deepEqual(order, ["slow at 0", "later at 1"]);
});

test("when a server that stops is lost before it has answered, the next one is sent all of it", async () => {
  await using server = await startQuotaServer((request, stream) =>
    stream === server.streams[0] && request.operations.length > 0 ? undefined : echo(request, stream),
  );
  await using session = openSession(server.port);
  await connected(session);
  const asked = session.ask(lookup("asked"));
  await until("it is in hand", () => server.batches.length === 1);
  tellStopping(server.streams[0]);
  await until("another stream is opened", () => server.heartbeats.length === 2);
  server.streams[0]?.break();
  assert.equal((await asked).accountId, "asked");
  assert.ok(session.isConnected());
  assert.equal(server.streams.length, 2);
});

test("another server that is lost at once is looked for again, and one that stops as well is left in its turn", async () => {
  await using server = await startQuotaServer((request, stream) => {
    if (server.streams.indexOf(stream) === 1) setImmediate(stream.break);
    return server.streams.indexOf(stream) === 1 ? undefined : echo(request, stream);
  });
  await using session = openSession(server.port);
  await connected(session);
  tellStopping(server.streams[0]);
  await until("a third stream is in use", () => server.streams[0]?.isLeft === true);
  assert.equal(server.streams.length, 3);
  tellStopping(server.streams[2]);
  await until("a fourth stream is in use", () => server.streams[2]?.isLeft === true);
  assert.equal((await session.ask(lookup("after"))).verdict, Verdict.OK);
  assert.ok(session.isConnected());
});
