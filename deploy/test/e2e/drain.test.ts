import assert from "node:assert/strict";
import { Agent } from "node:http";
import { after, before, describe, test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { until } from "#shared/testing/until.ts";
import { planDearStream } from "./call-mix.ts";
import { type CallLog, type CallPlan, callRelay } from "./caller.ts";
import {
  beginSlowReading,
  beginUpload,
  callOnce,
  callUntilTold,
  type CallResult,
  openIdle,
  openUnused,
} from "./drain-callers.ts";
import { assertBooksRight, type KillWorld, startKillWorld } from "./kills.ts";

const drainMs = 4_000;
const wordNanos = 1_000_000n;

/** A stream that is open, with what its caller has of it so far. */
type Open = { call: Promise<CallLog>; words: () => number };

describe("a relay that is told to stop while it serves 200 streams", () => {
  let scenario: KillWorld & AsyncDisposable;
  const calls: CallLog[] = [];
  let killed: CallLog | undefined;
  const floors = new Map<string, bigint>();
  const agent = new Agent({ keepAlive: true });
  before(async () => {
    scenario = await startKillWorld({ relay: { DRAIN_MS: String(drainMs) } });
  });
  after(() => scenario?.[Symbol.asyncDispose]());

  const customer = (number = 0) => {
    const one = scenario.customers[number % scenario.customers.length];
    assert.ok(one);
    return one;
  };
  const openStream = (number: number, manner: { words: number; gapMs: number }): Open => {
    const dialect = number % 2 === 0 ? "chat" : "messages";
    const plan: CallPlan = { ...planDearStream(customer(number), { dialect, ...manner }), number };
    let words = 0;
    const onWords = (count: number): void => void (words = count);
    return { call: callRelay(plan, { url: scenario.world.relayUrl, agent, onWords }), words: () => words };
  };
  const openStreams = (count: number, manner: { words: number; gapMs: number }): Open[] =>
    Array.from({ length: count }, (_, number) => openStream(number, manner));
  const asking = () => ({ url: scenario.world.relayUrl, customer: customer() });
  const isReady = async (): Promise<boolean> => {
    const { opsUrl } = scenario.world.stack.services.relay;
    const answer = await fetch(`${opsUrl}/readyz`, { headers: { connection: "close" } });
    await answer.text();
    return answer.ok;
  };

  test("every stream ends whole or is cut and charged; nobody is reset; it exits with 0 in its time", async (t) => {
    const { relay } = scenario.world.stack.services;
    const ending = [...openStreams(140, { words: 30, gapMs: 50 }), ...openStreams(20, { words: 5, gapMs: 500 })];
    const tooLong = openStreams(40, { words: 190, gapMs: 100 });
    const idle = await Promise.all([...Array.from({ length: 6 }, () => openIdle(asking())), openUnused(relay.url)]);
    const uploads = Array.from({ length: 4 }, () => beginUpload(asking()));
    const stuckUploads = Array.from({ length: 4 }, () => beginUpload(asking()));
    const readers = await Promise.all(
      Array.from({ length: 4 }, () => beginSlowReading({ ...asking(), behaviour: { textBytes: 4_000_000, gapMs: 1 } })),
    );
    const busy = Array.from({ length: 8 }, () => callUntilTold({ ...asking(), behaviour: { headersAfterMs: 10 } }));
    const unanswered = Array.from({ length: 4 }, () =>
      callOnce({ ...asking(), behaviour: { headersAfterMs: 60_000 } }, { agent }),
    );
    await until("all streams are open", () => [...ending, ...tooLong].every(({ words }) => words() > 0));

    const stopped = relay.kill("SIGTERM");
    await until("it says that it is not ready", async () => !(await isReady()));
    for (const { finish } of uploads) finish();
    for (const { read } of readers) read();
    calls.push(...(await Promise.all([...ending, ...tooLong].map(({ call }) => call))));
    await stopped;
    assert.equal(await relay.ended, "exit code 0");

    const broken = calls.filter(({ reason }) => reason !== "");
    assert.deepEqual(
      broken.map(({ reason }) => reason),
      [],
    );
    const whole = calls.filter(({ outcome }) => outcome === "whole");
    const cut = calls.filter(({ outcome }) => outcome === "cut");
    // On a busy machine some of those are cut that could have ended.
    assert.equal(whole.length + cut.length, 200);
    assert.ok(whole.length > 0 && cut.length >= tooLong.length, `${whole.length} whole, ${cut.length} cut`);
    // The relay counts a token in four bytes, of which a word has three.
    for (const { rid = "", words } of cut) floors.set(rid, (BigInt(words) * wordNanos * 7n) / 10n);
    const served = (await Promise.all(busy)).flat();
    const uploaded = await Promise.all(uploads.map(({ got }) => got));
    checkAll([...uploaded, ...served], 200);
    checkAll(await Promise.all(readers.map(({ got }) => got)), 200);
    const plan = planDearStream(customer(), { dialect: "chat", words: 1 });
    for (const { rid, status } of [...served, ...uploaded]) {
      const times = { startedAtMs: 0, endedAtMs: 0, retryAfter: undefined };
      calls.push({ plan, outcome: "whole", rid, status, words: 0, reason: "", ...times });
    }
    checkAll(await Promise.all(stuckUploads.map(({ got }) => got)), 503);
    checkAll(await Promise.all(unanswered), 503);
    assert.deepEqual([...new Set(idle.map(({ end }) => end()))], ["closed"]);
    t.diagnostic(`${whole.length} streams whole, ${cut.length} cut, ${served.length} calls of busy callers, 0 resets`);
  });

  test("a second signal ends it at once", async () => {
    const { relay } = scenario.world.stack.services;
    await relay.restart();
    const stream = openStream(1_000, { words: 190, gapMs: 100 });
    await until("it is open", () => stream.words() > 5);
    const { ended } = relay;
    process.kill(relay.pid, "SIGTERM");
    await until("it says that it is not ready", async () => !(await isReady()));
    process.kill(relay.pid, "SIGTERM");
    assert.equal(await ended, "exit code 1");
    killed = await stream.call;
    assert.equal(killed.outcome, "cut");
    await relay.restart();
  });

  test("the ledger is what was served, and what was cut is in it as DRAINED", async (t) => {
    const { relay } = scenario.world.stack.services;
    assert.ok(killed);
    const drained = calls.filter(({ outcome }) => outcome === "cut").map(({ rid = "" }) => rid);
    await assertBooksRight(t, scenario, { calls: [...calls, killed], relays: [relay], floors });
    const lines = (
      await Promise.all(scenario.customers.map(({ accountId }) => scenario.world.ledgerOf(accountId)))
    ).flat();
    const ends = lines.filter(({ usage }) => usage?.endCause === EndCause.DRAINED && usage.costNanos > 0n);
    assert.deepEqual(ends.map(({ rid }) => rid).toSorted(), drained.toSorted());
  });
});

/** All were answered whole, with this status. */
function checkAll(all: readonly CallResult[], status: number): void {
  assert.deepEqual([...new Set(all.map((got) => `${got.status} ${got.isWhole} ${got.reason}`))], [`${status} true `]);
}
