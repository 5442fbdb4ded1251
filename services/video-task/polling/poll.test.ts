import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import fc from "fast-check";
import { Registry } from "prom-client";
import { createLog } from "#shared/process/log.ts";
import { createStop } from "#shared/process/stop.ts";
import { until } from "#shared/testing/until.ts";
import type { RequestProvider, ProviderResult } from "../providers/request.ts";
import { createPollPass, type PollDeps } from "./poll.ts";
import { createMetrics } from "../metrics.ts";
import { applyPoll, claimDue, type DueTask } from "../store/polls.ts";
import { insertTask, makeDue, type TaskFields } from "../testing/polled-task.ts";
import { answerOf, upstreams } from "../testing/submissions.ts";
import { startTasksDatabase } from "../testing/tasks-database.ts";
import { decide, type Transition } from "../transition.ts";

type Database = Awaited<ReturnType<typeof startTasksDatabase>>;

let database: Database;
before(async () => {
  database = await startTasksDatabase();
});
after(() => database[Symbol.asyncDispose]());
beforeEach(() => database.pool.query("UPDATE video_task.task SET next_look_at = NULL"));

const rules = { pollMs: 3_600_000, graceMs: 3_600_000, random: () => 0.5 };
const video = (status: string, more: object = {}): ProviderResult => answerOf(200, { id: "x", status, ...more });
const gone: ProviderResult = answerOf(404);
const all = [
  { upstream: "first", slots: 1_000 },
  { upstream: undefined, slots: 1_000 },
];

/** A process that polls, with providers that answer by rid, its log and its metrics. */
function startReplica(
  answer: (rid: string) => ProviderResult | Promise<ProviderResult>,
  given: Partial<PollDeps> = {},
) {
  const lines: Record<string, unknown>[] = [];
  const log = createLog("test", "info", { write: (line) => void lines.push(JSON.parse(line)) });
  const metrics = createMetrics(new Registry());
  const polled: string[] = [];
  const requestProvider: RequestProvider = async (_upstream, { path }) => {
    const rid = path.slice(path.indexOf("at_provider_") + "at_provider_".length);
    polled.push(rid);
    return answer(rid);
  };
  const deps = { pool: database.pool, requestProvider, upstreams, metrics, log, rules, maxPolls: 64, ...given };
  return { pass: createPollPass(deps), polled, lines, metrics };
}

const task = (given: TaskFields = {}): Promise<string> => insertTask(database.pool, given);

async function rowOf(rid: string) {
  const { rows } = await database.pool.query(
    `SELECT state, progress, unanswered, missing, error_code AS code, error_message AS message,
       next_look_at IS NOT NULL AS "isOpen", extract(epoch FROM next_look_at - now())::float8 AS "waitSeconds",
       (SELECT json_agg(json_build_object('kind', kind, 'amount', amount_nanos, 'reason', reason) ORDER BY kind)
        FROM video_task.money_event AS e WHERE e.rid = t.rid) AS money
     FROM video_task.task AS t WHERE rid = $1`,
    [rid],
  );
  return rows[0];
}

const refundsOf = async (rid: string) =>
  ((await rowOf(rid)).money as { kind: number }[]).filter(({ kind }) => kind === 2);
const claimOne = async (rid: string): Promise<DueTask> => {
  const due = (await claimDue(database.pool, all, 30_000)).find((found) => found.rid === rid);
  assert.ok(due);
  return due;
};
const valueOf = async (metric: { get: () => Promise<{ values: { value: number }[] }> }) =>
  (await metric.get()).values.reduce((sum, { value }) => sum + value, 0);

describe("how a task goes on and ends", () => {
  it("queued, in progress, completed: told in the log with its rid, never polled again", async () => {
    const answers = [
      video("queued"),
      video("in_progress", { progress: 40 }),
      video("queued"),
      video("in_progress", { progress: 7 }),
    ];
    const rid = await task();
    const { pass, lines, polled } = startReplica(() => answers.shift() ?? video("completed", { seconds: "8" }));
    const seen = [];
    for (let poll = 0; poll < 5; poll += 1) {
      await pass();
      const { state, progress } = await rowOf(rid);
      seen.push(`${state} ${progress}`);
      await makeDue(database.pool);
    }
    assert.deepEqual(seen, ["queued 0", "in_progress 40", "in_progress 40", "in_progress 40", "completed 100"]);
    await pass();
    assert.equal(polled.length, 5);
    const told = lines.map(({ rid: of, account, upstream, from, to }) => ({ of, account, upstream, from, to }));
    assert.deepEqual(told, [
      { of: rid, account: "acct_test", upstream: "first", from: "queued", to: "in_progress" },
      { of: rid, account: "acct_test", upstream: "first", from: "in_progress", to: "completed" },
    ]);
    assert.deepEqual((await rowOf(rid)).money, [{ kind: 1, amount: 800_000_000, reason: "accepted" }]);
  });

  it("API spec, States and transitions: `failed`: the price is refunded in full, and nothing follows", async () => {
    const rid = await task();
    const error = { code: "moderation_blocked", message: "not allowed" };
    const { pass, metrics, lines } = startReplica(() => video("failed", { error }));
    await pass();
    const { state, code, message, isOpen, money } = await rowOf(rid);
    assert.deepEqual({ state, code, message, isOpen }, { state: "failed", ...error, isOpen: false });
    // 0 is all that was charged.
    assert.deepEqual(money[1], { kind: 2, amount: 0, reason: "video failed: moderation_blocked" });
    assert.equal(lines[0]?.["code"], "moderation_blocked");
    assert.deepEqual(
      (await metrics.ended.get()).values.map(({ labels }) => labels),
      [{ state: "failed", code: "other" }],
    );
  });

  it("a video that is shorter or smaller than asked for gives back the difference, one that is longer nothing", async () => {
    const [short, long, small] = [await task(), await task(), await task()];
    const { pass } = startReplica((rid) =>
      video("completed", { seconds: rid === short ? "6" : "9", size: rid === small ? "640x720" : "1280x720" }),
    );
    await pass();
    assert.deepEqual(await refundsOf(short), [
      { kind: 2, amount: 200_000_000, reason: "video shorter or smaller than asked for" },
    ]);
    // An event with the amount 0 would give back all of it.
    assert.deepEqual(await refundsOf(long), []);
    const half = { kind: 2, amount: 400_000_000, reason: "video shorter or smaller than asked for" };
    assert.deepEqual(await refundsOf(small), [half]);
  });

  it("three times not found: failed and refunded", async () => {
    const rid = await task();
    const { pass } = startReplica(() => gone);
    for (const expected of ["queued", "queued", "failed"]) {
      await pass();
      assert.equal((await rowOf(rid)).state, expected);
      await makeDue(database.pool);
    }
    assert.equal((await rowOf(rid)).code, "not_found");
    assert.equal((await refundsOf(rid)).length, 1);
  });
});

describe("the deadline", () => {
  it("one more poll is made after it: completed is completed, everything else fails and is refunded", async () => {
    const [late, never] = [await task({ ageSeconds: 601 }), await task({ ageSeconds: 601 })];
    const { pass, polled } = startReplica((rid) => video(rid === late ? "completed" : "in_progress"));
    await pass();
    assert.equal(polled.length, 2);
    assert.equal((await rowOf(late)).state, "completed");
    const { state, code } = await rowOf(never);
    assert.deepEqual([state, code], ["failed", "timeout"]);
    assert.deepEqual([(await refundsOf(late)).length, (await refundsOf(never)).length], [0, 1]);
  });

  it("a provider that is silent has the grace, then the task fails", async () => {
    const [within, beyond] = [await task({ ageSeconds: 4_100 }), await task({ ageSeconds: 4_300 })];
    const { pass, metrics } = startReplica(() => ({ kind: "silent", cause: "no answer" }));
    await pass();
    assert.deepEqual([(await rowOf(within)).state, (await rowOf(beyond)).state], ["queued", "failed"]);
    assert.equal(await valueOf(metrics.providerErrors), 2);
  });

  it("so has one that the catalog does not name any more", async () => {
    const [within, beyond] = [await task({ upstream: "third" }), await task({ upstream: "third", ageSeconds: 4_300 })];
    const { pass, polled } = startReplica(() => video("completed"));
    await pass();
    assert.deepEqual([(await rowOf(within)).state, (await rowOf(beyond)).code], ["queued", "timeout"]);
    assert.deepEqual(polled, []);
  });

  it("a task that failed by it is watched: a late success is counted once, changes nothing and is not charged", async () => {
    const rid = await task({ ageSeconds: 601 });
    let state = "in_progress";
    const { pass, metrics, lines } = startReplica(() => video(state));
    await pass();
    assert.ok((await rowOf(rid)).isOpen);
    const before = await rowOf(rid);
    state = "completed";
    await makeDue(database.pool);
    await pass();
    await makeDue(database.pool);
    await pass();
    assert.deepEqual(await rowOf(rid), { ...before, isOpen: false, waitSeconds: null });
    assert.equal(await valueOf(metrics.lateSuccesses), 1);
    assert.equal(lines.at(-1)?.["costNanos"], "800000000");
  });
});

describe("polls that are not answered", () => {
  it("wait twice as long each time and as long as the provider asks for, each task for itself", async () => {
    const [limited, broken] = [await task(), await task()];
    const limit: ProviderResult = { kind: "answer", answer: { status: 429, body: {}, retryAfterSeconds: 240 } };
    const given = { rules: { ...rules, pollMs: 1_000 } };
    const { pass, lines } = startReplica((rid) => (rid === limited ? limit : answerOf(500)), given);
    await pass();
    const close = (seconds: number, wanted: number): void => assert.ok(seconds > wanted - 1.5 && seconds <= wanted);
    close((await rowOf(limited)).waitSeconds, 240);
    close((await rowOf(broken)).waitSeconds, 2);
    await makeDue(database.pool);
    await pass();
    close((await rowOf(broken)).waitSeconds, 4);
    const { state, unanswered } = await rowOf(broken);
    assert.deepEqual([state, unanswered], ["queued", 2]);
    assert.equal(lines.length, 2, "told once a task");
  });

  it("a fault in reading an answer is one, too, so that the deadline still ends the task", async () => {
    const rid = await task();
    const { pass, lines } = startReplica(() => Promise.reject(new Error("a fault")));
    await pass();
    assert.equal((await rowOf(rid)).unanswered, 1);
    assert.equal(lines[0]?.["level"], "error");
  });

  it("an answer that takes too long counts as none, unless it says that the task has ended", async () => {
    const rid = await task();
    const answer = Promise.withResolvers<ProviderResult>();
    const { pass } = startReplica(() => answer.promise, { leaseMs: 30 });
    await pass();
    await until("no answer in time", async () => (await rowOf(rid)).unanswered === 1);
    answer.resolve(video("completed"));
    await until("the task is completed", async () => (await rowOf(rid)).state === "completed");
  });
});

describe("several replicas", () => {
  it("poll each of hundreds of due tasks once for each time that it is due", async () => {
    const rids: string[] = [];
    // Ten at once, as the pool has connections: on a busy machine all would wait longer for one than they may.
    while (rids.length < 300) rids.push(...(await Promise.all(Array.from({ length: 10 }, () => task()))));
    const replicas = Array.from({ length: 3 }, () => startReplica(() => video("in_progress"), { maxPolls: 20 }));
    const everyone = async (): Promise<string[]> => {
      await Promise.all(
        replicas.map(async ({ pass }) => {
          while (await pass());
        }),
      );
      return replicas.flatMap(({ polled }) => polled.splice(0)).toSorted();
    };
    assert.deepEqual(await everyone(), rids.toSorted());
    assert.deepEqual(await everyone(), []);
    await makeDue(database.pool);
    assert.deepEqual(await everyone(), rids.toSorted());
  });

  it("what a replica took along when it died is polled by another after the lease, not before", async () => {
    const rid = await task();
    const [dead] = await claimDue(database.pool, all, 3_600_000);
    assert.equal(dead?.rid, rid);
    const { pass } = startReplica(() => video("completed"));
    await pass();
    assert.equal((await rowOf(rid)).state, "queued");
    const { rowCount } = await database.pool.query(
      `UPDATE video_task.task SET next_look_at = next_look_at - interval '1 hour' WHERE rid = $1 AND next_look_at > now()`,
      [rid],
    );
    assert.equal(rowCount, 1);
    await pass();
    assert.equal((await rowOf(rid)).state, "completed");
  });

  it("whoever comes second with an end changes nothing and moves no money", async () => {
    const ends: ProviderResult[] = [video("completed", { seconds: "4" }), video("failed"), video("completed"), gone];
    for (const [index, first] of ends.entries()) {
      const rid = await task();
      const paused = createStop();
      const isReached = createStop();
      // The third "not found" of the last one is its end.
      await database.pool.query("UPDATE video_task.task SET missing = 2 WHERE rid = $1", [rid]);
      const slow = startReplica(async () => {
        isReached.stop();
        await paused.stopped;
        return ends[(index + 1) % ends.length] as ProviderResult;
      });
      const slowPass = slow.pass();
      await isReached.stopped;
      await makeDue(database.pool);
      await startReplica(() => first).pass();
      const before = await rowOf(rid);
      assert.ok(["completed", "failed"].includes(before.state));
      paused.stop();
      await slowPass;
      assert.deepEqual({ ...(await rowOf(rid)), waitSeconds: null }, { ...before, waitSeconds: null });
      assert.equal(await valueOf(slow.metrics.ended), 0);
    }
  });

  it("what a paused one had not seen with its own eyes it cannot say when another has polled since", async () => {
    const rid = await task({ ageSeconds: 601 });
    const stale = await claimOne(rid);
    await makeDue(database.pool);
    const fresh = await claimOne(rid);
    const timeOut = decide(stale, { state: "queued" }, rules);
    assert.equal(timeOut.kind, "failed");
    assert.equal(await applyPoll(database.pool, stale, timeOut), false);
    assert.equal(
      await applyPoll(database.pool, stale, decide({ ...stale, ageMs: 0 }, { state: "queued" }, rules)),
      false,
    );
    assert.equal((await rowOf(rid)).state, "queued");
    assert.equal(await applyPoll(database.pool, fresh, timeOut), true);
    assert.equal(await applyPoll(database.pool, fresh, timeOut), false);
    assert.equal((await refundsOf(rid)).length, 1);
  });

  it("whatever they apply in whatever order, a task ends once, with at most one refund", async () => {
    const change: fc.Arbitrary<Transition> = fc.oneof(
      fc.record({
        kind: fc.constant("waiting" as const),
        state: fc.constantFrom("queued" as const, "in_progress" as const),
        progress: fc.integer({ min: 0, max: 100 }),
        unanswered: fc.nat(5),
        missing: fc.nat(2),
        waitMs: fc.constant(0),
      }),
      fc.record({
        kind: fc.constant("completed" as const),
        refundNanos: fc.constantFrom(0n, 5n),
        expiresAtMs: fc.constantFrom(undefined, 1_900_000_000_000),
        contentUrl: fc.constantFrom(undefined, "https://files.example/1"),
      }),
      fc.record({
        kind: fc.constant("failed" as const),
        code: fc.constant("timeout"),
        message: fc.constant("late"),
        watchMs: fc.constantFrom(undefined, 0),
      }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(change, fc.boolean()), { maxLength: 12 }), async (given) => {
        const rid = await task();
        let due = await claimOne(rid);
        let last = await rowOf(rid);
        for (const [transition, isClaimedAnew] of given) {
          if (isClaimedAnew) {
            await makeDue(database.pool);
            due = (await claimDue(database.pool, all, 30_000)).find((found) => found.rid === rid) ?? due;
          }
          await Promise.all([applyPoll(database.pool, due, transition), applyPoll(database.pool, due, transition)]);
          const now = await rowOf(rid);
          const order = ["queued", "in_progress", "completed", "failed"];
          assert.ok(order.indexOf(now.state) >= order.indexOf(last.state) && now.progress >= last.progress);
          if (last.state === "completed" || last.state === "failed") {
            assert.deepEqual([now.state, now.money, now.progress], [last.state, last.money, last.progress]);
          }
          assert.ok(now.money.length <= 2);
          if (now.state === "failed") assert.equal(now.money[1]?.amount, 0);
          if (now.state === "completed") assert.ok(now.money[1]?.amount !== 0);
          last = now;
        }
      }),
      { numRuns: 60 },
    );
  });
});

describe("slots", () => {
  it("a pass polls no more than there are slots, and says that more may be due", async () => {
    const rids = await Promise.all(Array.from({ length: 5 }, () => task()));
    const { pass, polled } = startReplica(() => video("in_progress"), { maxPolls: 4 });
    // Two upstreams share four slots.
    assert.deepEqual([await pass(), polled.length], [true, 2]);
    assert.deepEqual([await pass(), polled.length], [true, 4]);
    assert.deepEqual([await pass(), polled.length], [false, 5]);
    assert.deepEqual(polled.toSorted(), rids.toSorted());
  });

  it("an upstream that hangs keeps its own slots and no others", async () => {
    const hanging = await Promise.all(Array.from({ length: 5 }, () => task({ upstream: "second" })));
    const hang = Promise.withResolvers<ProviderResult>();
    const answer = (rid: string) => (hanging.includes(rid) ? hang.promise : video("completed"));
    const { pass, polled } = startReplica(answer, { maxPolls: 4 });
    await pass();
    const others = await Promise.all(Array.from({ length: 3 }, () => task()));
    await until("the others are completed", async () => {
      await pass();
      return (await Promise.all(others.map(rowOf))).every(({ state }) => state === "completed");
    });
    assert.equal(polled.filter((rid) => hanging.includes(rid)).length, 2);
    hang.resolve(video("queued"));
  });

  it("after disposal, what is under way changes nothing", async () => {
    const rid = await task();
    const answer = Promise.withResolvers<ProviderResult>();
    const replica = startReplica(() => answer.promise);
    const pass = replica.pass();
    await until("it polls", () => replica.polled.length === 1);
    replica.pass[Symbol.dispose]();
    answer.resolve(video("completed"));
    await pass;
    assert.equal((await rowOf(rid)).state, "queued");
    assert.deepEqual(replica.lines, []);
  });
});
