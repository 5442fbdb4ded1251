import assert from "node:assert/strict";
import { test } from "node:test";
import { Verdict, type Operation, type Result } from "#proto/authquota/v1/authquota_pb.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { until } from "#shared/testing/until.ts";
import { defaultLimits, type QuotaSession } from "./quota-session.ts";
import { accountsOf, connected, lookup, numbered, openSession, ridsOf, settle } from "../testing/quota-line.ts";
import { echo, echoOf, startQuotaServer, type QuotaServer, type Script } from "../testing/quota-server.ts";

type Release = Extract<Operation["operation"], { case: "release" }>;
const isRelease = (operation: Operation["operation"]): operation is Release => operation.case === "release";

test("what a broken stream left unanswered is sent again on the next one, ahead of what waits, with the same content", async () => {
  let isAnswering = false;
  await using server = await startQuotaServer((request, stream) =>
    isAnswering || request.operations.length === 0 ? echo(request, stream) : undefined,
  );
  await using session = openSession(server.port, { lingerMs: 60_000 });
  await connected(session);
  const sent = [session.tell(settle("a")), session.ask(lookup("b"))];
  await until("the first batch is there", () => server.batches.length === 1);
  sent.push(session.ask(lookup("c")));
  await until("the second batch is there", () => server.batches.length === 2);
  sent.push(session.tell(settle("d")));
  isAnswering = true;
  server.streams[0]?.break();
  assert.deepEqual(accountsOf(await Promise.all(sent)), ["a", "b", "c", "d"]);
  const [lost1, lost2, ...again] = server.batches;
  assert.ok(lost1 && lost2);
  assert.deepEqual(ridsOf(again), [["a", "b", "c", "d"]]);
  assert.deepEqual(again[0]?.operations.slice(0, 3), [...lost1.operations, ...lost2.operations]);
});

test("answered operations are not sent again when a stream breaks", async () => {
  await using server = await startQuotaServer(echo);
  await using session = openSession(server.port);
  await connected(session);
  await session.ask(lookup("answered"));
  server.streams[0]?.break();
  await session.ask(lookup("after"));
  assert.deepEqual(ridsOf(server.batches), [["answered"], ["after"]]);
});

test("an ask that nobody answers is UNAVAILABLE after its deadline: a silent server, and none at all", async () => {
  await using server = await startQuotaServer(({ operations }) => (operations.length === 0 ? [] : undefined));
  await using silent = openSession(server.port, { askTimeoutMs: 500 });
  await connected(silent);
  assert.equal((await silent.ask(lookup("a"))).verdict, Verdict.UNAVAILABLE);
  assert.equal(server.batches.length, 1, "it was sent once");

  await using nobody = openSession(await freePort(), { askTimeoutMs: 150 });
  const results = await Promise.all(numbered(3).map((rid) => nobody.ask(lookup(rid))));
  assert.deepEqual(new Set(results.map(({ verdict }) => verdict)), new Set([Verdict.UNAVAILABLE]));
  await until("what was never sent is forgotten", () => nobody.queued() === 0);
});

test("an ask whose caller has given up is not sent again on the next stream", async () => {
  await using server = await startQuotaServer((request, stream) =>
    server.streams.length > 1 ? echo(request, stream) : undefined,
  );
  await using session = openSession(server.port, { askTimeoutMs: 150 });
  assert.equal((await session.ask(lookup("given up"))).verdict, Verdict.UNAVAILABLE);
  server.streams[0]?.break();
  assert.equal((await session.tell(settle("told"))).accountId, "told");
  assert.deepEqual(ridsOf(server.batches), [["given up"], ["told"]]);
  assert.equal(session.queued(), 0);
});

test("a tell survives the death and return of the server, and an ask before its deadline too", async () => {
  let first: QuotaServer | undefined = await startQuotaServer(() => undefined);
  const { port } = first;
  await using session = openSession(port, { lingerMs: 1 });
  const told = session.tell(settle("told"));
  const asked = session.ask(lookup("asked"));
  await until("they are with the server", () => ridsOf(first?.batches ?? []).flat().length === 2);
  await first[Symbol.asyncDispose]();
  first = undefined;
  await until("the session has noticed", () => !session.isConnected());
  assert.equal(session.queued(), 2);
  await using second = await startQuotaServer(echo, port);
  assert.deepEqual(accountsOf(await Promise.all([told, asked])), ["told", "asked"]);
  assert.deepEqual(ridsOf(second.batches).flat(), ["told", "asked"]);
});

test("a tell that the server cannot decide on is told again until it can, and counts as queued meanwhile", async () => {
  const verdicts = [Verdict.UNAVAILABLE, Verdict.UNAVAILABLE, Verdict.OK];
  await using server = await startQuotaServer(({ operations }) =>
    operations.map(() => ({ verdict: verdicts.shift() ?? Verdict.CONFLICT })),
  );
  await using session = openSession(server.port, { lingerMs: 1 });
  await connected(session);
  const seen = new Set<number>();
  const timer = setInterval(() => seen.add(session.queued()), 1);
  const told = await session.tell(settle("told"));
  clearInterval(timer);
  assert.equal(told.verdict, Verdict.OK);
  assert.deepEqual([...seen], [1], "who drains must wait for it");
  assert.equal(server.batches.length, 3);
  assert.equal(session.queued(), 0);
});

test("an ask that the server cannot decide on is its caller's to repeat", async () => {
  await using server = await startQuotaServer(({ operations }) =>
    operations.map(() => ({ verdict: Verdict.UNAVAILABLE })),
  );
  await using session = openSession(server.port);
  await connected(session);
  assert.equal((await session.ask(lookup("a"))).verdict, Verdict.UNAVAILABLE);
  assert.equal(server.batches.length, 1);
});

test("what is told without a promise is answered once, when it is decided", async () => {
  const verdicts = [Verdict.UNAVAILABLE, Verdict.OK];
  await using server = await startQuotaServer(({ operations }) =>
    operations.map(() => ({ verdict: verdicts.shift() ?? Verdict.CONFLICT })),
  );
  await using session = openSession(server.port, { lingerMs: 1 });
  const told: Verdict[] = [];
  session.tellThen(settle("told"), ({ verdict }) => told.push(verdict));
  assert.equal(session.queued(), 1);
  await until("it is answered", () => told.length > 0);
  assert.deepEqual([told, server.batches.length, session.queued()], [[Verdict.OK], 2, 0]);
});

test("any other verdict is an answer, also to a tell", async () => {
  await using server = await startQuotaServer(({ operations }) =>
    operations.map(() => ({ verdict: Verdict.CONFLICT })),
  );
  await using session = openSession(server.port);
  assert.equal((await session.tell(settle("a"))).verdict, Verdict.CONFLICT);
});

test("an answer with fewer results than operations leaves the rest undecided", async () => {
  await using server = await startQuotaServer(({ operations }) => operations.slice(0, 1).map(echoOf));
  await using session = openSession(server.port);
  await connected(session);
  const results = await Promise.all([session.ask(lookup("a")), session.ask(lookup("b"))]);
  assert.deepEqual(
    results.map(({ verdict }) => verdict),
    [Verdict.OK, Verdict.UNAVAILABLE],
  );
});

test("the queue is bounded: beyond it an operation is UNAVAILABLE at once, and those within it arrive", async () => {
  const port = await freePort();
  await using session = openSession(port, { maxQueued: 5 });
  const rids = numbered(5);
  const within = rids.map((rid) => session.tell(settle(rid)));
  assert.equal((await session.ask(lookup("beyond"))).verdict, Verdict.UNAVAILABLE);
  assert.equal((await session.tell(settle("beyond"))).verdict, Verdict.UNAVAILABLE);
  assert.equal(session.queued(), 5);
  await using server = await startQuotaServer(echo, port);
  assert.deepEqual(accountsOf(await Promise.all(within)), rids);
  assert.deepEqual(ridsOf(server.batches).flat(), rids);
});

test("a session is connected when the server has answered on its stream, not before and not behind it", async () => {
  let isAnswering = false;
  await using server = await startQuotaServer((request, stream) => (isAnswering ? echo(request, stream) : undefined));
  await using session = openSession(server.port);
  assert.equal(session.isConnected(), false);
  await until("the first heartbeat is there", () => server.heartbeats.length === 1);
  assert.equal(session.isConnected(), false, "nothing has been answered");
  isAnswering = true;
  server.streams[0]?.answer(server.heartbeats[0]?.batch ?? 0n, []);
  await connected(session);
  isAnswering = false;
  server.streams[0]?.break();
  await until("the break is noticed", () => !session.isConnected());
});

test("each new stream opens with a heartbeat, so that a relay without calls is not taken for dead", async () => {
  await using server = await startQuotaServer(echo);
  await using session = openSession(server.port);
  await connected(session);
  server.streams[0]?.break();
  await until("the next stream has opened", () => server.heartbeats.length === 2);
  assert.deepEqual(
    server.heartbeats.map(({ relaySession }) => relaySession),
    ["session-1", "session-1"],
  );
});

test("closing answers everybody who still waits", async () => {
  await using server = await startQuotaServer(({ operations }) =>
    operations.some(({ operation }) => operation.case === "settle")
      ? operations.map(() => ({ verdict: Verdict.UNAVAILABLE }))
      : undefined,
  );
  const session = openSession(server.port, { lingerMs: 1 });
  await until("the stream is there", () => server.heartbeats.length > 0);
  const told = session.tell(settle("to be told again"));
  await until("it was told once", () => server.batches.length === 1);
  const asked = session.ask(lookup("in flight"));
  await until("it is with the server", () => server.batches.length === 2);
  const queued = session.ask(lookup("queued"));
  await session[Symbol.asyncDispose]();
  for (const result of await Promise.all([told, asked, queued])) assert.equal(result.verdict, Verdict.UNAVAILABLE);
  assert.equal(session.queued(), 0);
});

test("the generation is the one that the last answer named; an answer that names none changes nothing", async () => {
  await using server = await startQuotaServer(() => undefined);
  await using session = openSession(server.port);
  assert.equal(session.generation(), "");
  await until("the first heartbeat is there", () => server.heartbeats.length === 1);
  const [stream] = server.streams;
  for (const [batch, generation, expected] of [
    [1n, "g1", "g1"],
    [2n, "", "g1"],
    [3n, "g2", "g2"],
  ] as const) {
    stream?.answer(batch, [], { generation });
    await until(`generation ${expected}`, () => session.generation() === expected);
  }
});

/** A server that tells, with every answer, whether there is a maintenance; undefined: it does not know. */
function tellingServer(told: { isMaintenance?: boolean }, port = 0): Promise<QuotaServer> {
  const script: Script = ({ batch, operations }, stream) => {
    stream.answer(batch, operations.map(echoOf), told);
    return undefined;
  };
  return startQuotaServer(script, port);
}

test("a session without calls hears of a maintenance, and of its end, with its heartbeats", async () => {
  const told = { isMaintenance: true };
  await using server = await tellingServer(told);
  await using session = openSession(server.port, { heartbeatMs: 1 });
  assert.equal(session.isMaintenance(), false, "nothing was told");
  await until("it has begun", () => session.isMaintenance());
  told.isMaintenance = false;
  await until("it is over", () => !session.isMaintenance());
  assert.deepEqual(server.batches, []);
  assert.ok(defaultLimits.heartbeatMs <= 1_000, "an idle relay hears of it within about a second");
});

test("what was told of a maintenance stays in force while nobody can be asked, and while nobody knows", async () => {
  const port = await freePort();
  await using session = openSession(port);
  {
    await using server = await tellingServer({ isMaintenance: true }, port);
    await until("it has begun", () => session.isMaintenance());
    assert.equal(server.heartbeats.length, 1);
  }
  await until("the loss is noticed", () => !session.isConnected());
  assert.equal(session.isMaintenance(), true, "nobody can be asked");
  {
    await using server = await tellingServer({}, port);
    await connected(session);
    await session.ask(lookup("a"));
    assert.equal(session.isMaintenance(), true, "nobody knows");
    assert.equal(server.heartbeats.length, 1);
  }
  await until("the loss is noticed", () => !session.isConnected());
  await using server = await tellingServer({ isMaintenance: false }, port);
  await connected(session);
  assert.equal(session.isMaintenance(), false, "the first answer on a new stream tells it");
  assert.equal(server.batches.length, 0);
});

test("a session that has had no stream for a while says so, so that nobody waits for answers that cannot come", async () => {
  const port = await freePort();
  await using session = openSession(port);
  assert.equal(session.isReachable(), true, "it has only just begun to connect");
  await until("it is found out", () => !session.isReachable());
  await using server = await startQuotaServer(echo, port);
  await connected(session);
  assert.equal(session.isReachable(), true);
  assert.equal(server.streams.length, 1);
});

test("a stream without answers is given up, and what it left unanswered is told on the next one", async () => {
  const paused: Script = (request, stream) => (server.streams.length === 1 ? undefined : echo(request, stream));
  await using server = await startQuotaServer(paused);
  await using session = openSession(server.port, { lingerMs: 1, silentMs: 200 });
  assert.equal((await session.tell(settle("told"))).accountId, "told");
  assert.equal(server.streams.length, 2);
});

test("a stream on which answers come is kept, however many are still due", async () => {
  const held: bigint[] = [];
  await using server = await startQuotaServer((request, stream) => {
    // Every batch is answered when the next has come.
    const earlier = held.shift();
    held.push(request.batch);
    if (earlier !== undefined) stream.answer(earlier, [{ verdict: Verdict.OK }]);
    return undefined;
  });
  await using session = openSession(server.port, { lingerMs: 1, silentMs: 300 });
  const told: Promise<Result>[] = [];
  const startedAtMs = performance.now();
  await until("it has gone on for far longer than a silence may last", async () => {
    told.push(session.tell(settle(`rid-${told.length}`)));
    return performance.now() - startedAtMs > 900;
  });
  assert.equal(server.streams.length, 1);
});

test("a Reserve that was sent twice and refused is released: whoever got it first may still grant it", async () => {
  const reserve = (rid: string) => ({ operation: { case: "reserve" as const, value: { rid, estimateNanos: 1n } } });
  const refusing: Script = ({ operations }, stream) => {
    if (server.streams.length > 1) return operations.map(() => ({ verdict: Verdict.BALANCE }));
    if (operations.length > 0) setImmediate(stream.break);
    return undefined;
  };
  await using server = await startQuotaServer(refusing);
  await using session = openSession(server.port, { lingerMs: 1 });
  assert.equal((await session.ask(reserve("twice"))).verdict, Verdict.BALANCE);
  assert.equal((await session.ask(reserve("once"))).verdict, Verdict.BALANCE);
  const released = () =>
    server.batches.flatMap(({ operations }) => operations.flatMap(({ operation }) => operation)).filter(isRelease);
  await until("one is released", () => released().length > 0);
  assert.equal((await session.tell(settle("later"))).verdict, Verdict.BALANCE);
  assert.deepEqual(
    released().map(({ value }) => value.rid),
    ["twice"],
  );
});

test("how far the clock is ahead is known from what auth-quota tells, and at once when the clock is put right", async (context) => {
  const toldMs = Date.now() - 3_600_000;
  await using server = await startQuotaServer(({ batch }, stream) => {
    stream.answer(batch, [], { timeMs: BigInt(toldMs) });
    return undefined;
  });
  await using session = openSession(server.port);
  assert.equal(session.clockAheadMs(), 0, "nothing was told yet");
  await connected(session);
  const aheadMs = session.clockAheadMs();
  assert.ok(aheadMs >= 3_600_000 - 5_000 && aheadMs <= 3_600_000 + 60_000, String(aheadMs));
  context.mock.timers.enable({ apis: ["Date"], now: toldMs });
  assert.ok(Math.abs(session.clockAheadMs()) < 60_000);
});

/** Asks for so many calls, and tells who hears of it, and how many in each turn of the event loop. */
function askInTurns(session: QuotaSession, count: number): { turns: number[]; heard: string[]; all: Promise<void[]> } {
  const turns: number[] = [];
  const heard: string[] = [];
  let inTurn = 0;
  const hear = ({ accountId }: Result): void => {
    if (inTurn === 0) {
      setImmediate(() => {
        turns.push(inTurn);
        inTurn = 0;
      });
    }
    inTurn += 1;
    heard.push(accountId);
  };
  const all = Promise.all(numbered(count).map(async (rid) => hear(await session.ask(lookup(rid)))));
  return { turns, heard, all };
}

test("calls that are answered at once go on in several turns of the event loop, in their order", async () => {
  await using server = await startQuotaServer(echo);
  await using session = openSession(server.port);
  await connected(session);
  const { turns, heard, all } = askInTurns(session, 300);
  await all;
  assert.deepEqual(heard, numbered(300));
  await until("every turn is counted", () => turns.reduce((sum, turn) => sum + turn, 0) === 300);
  assert.equal(ridsOf(server.batches).length, 1, "they were answered at once");
  assert.ok(Math.max(...turns) <= 64, turns.join(", "));
});

test("who was answered before the generation changed has heard of it when it has", async () => {
  await using server = await startQuotaServer(() => undefined);
  await using session = openSession(server.port);
  await until("the first heartbeat is there", () => server.heartbeats.length === 1);
  const [stream] = server.streams;
  stream?.answer(1n, [], { generation: "g1" });
  await connected(session);
  let heard = 0;
  const asked = numbered(300).map(async (rid) => {
    await session.ask(lookup(rid));
    heard += 1;
  });
  await until("the batch is there", () => server.batches.length === 1);
  const [batch] = server.batches;
  assert.ok(batch);
  const results = batch.operations.map(echoOf);
  stream?.answer(batch.batch, results, { generation: "g1" });
  stream?.answer(batch.batch + 1n, [], { generation: "g2" });
  while (session.generation() !== "g2") await new Promise((resolve) => setImmediate(resolve));
  assert.equal(heard, 300);
  await Promise.all(asked);
});
