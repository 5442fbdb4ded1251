import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import fc from "fast-check";
import { dayMs } from "#shared/process/clock.ts";
import type { PollResult } from "./providers/provider.ts";
import type { RunningTask } from "./task.ts";
import { encodedCharge, makeRunning } from "./testing/polled-task.ts";
import { decide, type Transition, type TransitionRules } from "./transition.ts";

const rules: TransitionRules = { pollMs: 5_000, graceMs: 3_600_000, random: () => 0.5 };
const deadlineMs = 600_000;
const nothing = { seconds: undefined, size: undefined, expiresAtMs: undefined, contentUrl: undefined };
const completed: PollResult = { state: "completed", ...nothing };
const failed: PollResult = { state: "failed", code: "moderation_blocked", message: "no" };
const unanswered: PollResult = { state: "unanswered", cause: "HTTP 500", retryAfterSeconds: 0 };
const at = (ageMs: number, given: Partial<RunningTask> = {}): RunningTask => makeRunning({ ageMs, ...given });

const anyAgeMs = fc.oneof(
  fc.integer({ min: 0, max: 2 * deadlineMs }),
  fc.integer({ min: 0, max: deadlineMs + rules.graceMs + 2 * dayMs }),
  fc.constantFrom(deadlineMs - 1, deadlineMs, deadlineMs + rules.graceMs - 1, deadlineMs + rules.graceMs),
);
const anySeconds = fc.option(fc.oneof(fc.double({ min: 0.000_001, max: 20, noNaN: true }), fc.constantFrom(4, 8, 12)), {
  nil: undefined,
});
const openPoll: fc.Arbitrary<PollResult> = fc.oneof(
  fc.constant<PollResult>({ state: "queued" }),
  fc.record({
    state: fc.constant("in_progress" as const),
    progress: fc.option(fc.oneof(fc.integer({ min: 0, max: 100 }), fc.double()), { nil: undefined }),
  }),
  fc.constant<PollResult>({ state: "missing" }),
  fc.record({
    state: fc.constant("unanswered" as const),
    cause: fc.string(),
    retryAfterSeconds: fc.oneof(fc.nat(1_000), fc.double()),
  }),
);
const endPoll: fc.Arbitrary<PollResult> = fc.oneof(
  fc.record({
    state: fc.constant("completed" as const),
    seconds: anySeconds,
    size: fc.option(fc.oneof(fc.string(), fc.constantFrom("1280x720", "640x360", "1x1", "1792x1024")), {
      nil: undefined,
    }),
    expiresAtMs: fc.constant(undefined),
    contentUrl: fc.constant(undefined),
  }),
  fc.record({ state: fc.constant("failed" as const), code: fc.string({ minLength: 1 }), message: fc.string() }),
);
const anyPoll = fc.oneof({ weight: 5, arbitrary: openPoll }, { weight: 1, arbitrary: endPoll });

const order = { queued: 0, in_progress: 1, completed: 2, failed: 2 };

/** What the store does with a transition (see store/polls.ts); undefined: nobody looks any more. */
function moveOn(task: RunningTask, transition: Transition): RunningTask | undefined {
  switch (transition.kind) {
    case "waiting":
      return { ...task, ...transition };
    case "completed":
      return undefined;
    case "failed":
      return transition.watchMs === undefined ? undefined : { ...task, state: "failed" };
    case "watched":
      return transition.waitMs === undefined ? undefined : task;
  }
}

function follow(
  polls: readonly (readonly [PollResult, number])[],
): { transition: Transition; poll: PollResult; ageMs: number }[] {
  const seen = [];
  let task: RunningTask | undefined = makeRunning();
  for (const [poll, ageMs] of polls) {
    if (!task) break;
    const transition = decide({ ...task, ageMs }, poll, { ...rules, random: Math.random });
    seen.push({ transition, poll, ageMs });
    task = moveOn(task, transition);
  }
  return seen;
}

describe("whatever providers answer, in any order and at any age", () => {
  const sequences = fc.array(fc.tuple(anyPoll, anyAgeMs), { maxLength: 40 });

  it("a task ends at most once, its state never goes back, its progress never falls", () => {
    fc.assert(
      fc.property(sequences, (polls) => {
        let last = { order: 0, progress: 0 };
        let ends = 0;
        for (const { transition } of follow(polls)) {
          if (transition.kind === "watched") {
            assert.equal(ends, 1);
            continue;
          }
          const state = transition.kind === "waiting" ? transition.state : transition.kind;
          const progress = transition.kind === "waiting" ? transition.progress : last.progress;
          assert.ok(order[state] >= last.order && progress >= last.progress && progress <= 100);
          assert.ok(Number.isInteger(progress));
          assert.equal(ends, 0, "nothing follows an end but watching");
          if (transition.kind !== "waiting") ends += 1;
          last = { order: order[state], progress };
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it("a completed task gives back nothing or less than its price, and a failed one names no amount: all of it", () => {
    fc.assert(
      fc.property(sequences, fc.integer({ min: 1, max: 60 }), (polls, seconds) => {
        const charge = encodedCharge(makeRunning().rid, seconds);
        for (const [poll, ageMs] of polls) {
          const transition = decide(at(ageMs, { charge }), poll, rules);
          if (transition.kind === "failed") assert.ok(!("refundNanos" in transition));
          if (transition.kind !== "completed") continue;
          assert.ok(transition.refundNanos >= 0n && transition.refundNanos < BigInt(seconds) * 100_000_000n);
        }
      }),
    );
  });

  it("polls without an answer end nothing before the deadline and its grace are over, then they end it", () => {
    const without = fc.array(
      fc.tuple(
        openPoll.filter(({ state }) => state === "unanswered"),
        anyAgeMs,
      ),
    );
    fc.assert(
      fc.property(without, (polls) => {
        for (const { transition, ageMs } of follow(polls)) {
          if (transition.kind === "waiting") assert.ok(ageMs < deadlineMs + rules.graceMs);
          if (transition.kind === "failed") assert.ok(ageMs >= deadlineMs + rules.graceMs);
        }
      }),
    );
  });

  it("every wait is bounded: up to five minutes while it runs, an hour and a half when it is watched", () => {
    fc.assert(
      fc.property(sequences, (polls) => {
        for (const { transition } of follow(polls)) {
          if (transition.kind === "waiting") assert.ok(transition.waitMs >= 2_500 && transition.waitMs <= 300_000);
          if (transition.kind === "watched") assert.ok((transition.waitMs ?? 0) <= 5_400_000);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("the deadline", () => {
  it("fails what the first answered look after it does not find completed, and watches it", () => {
    const polls: PollResult[] = [{ state: "queued" }, { state: "in_progress", progress: 99 }, { state: "missing" }];
    for (const poll of polls) {
      assert.equal(decide(at(deadlineMs - 1), poll, rules).kind, "waiting");
      const verdict = decide(at(deadlineMs), poll, rules);
      assert.deepEqual(verdict, {
        kind: "failed",
        code: "timeout",
        message: "The video was not completed in time",
        watchMs: 3_600_000,
      });
    }
  });

  it("leaves the provider's word as it is, however late it comes", () => {
    const late = deadlineMs + rules.graceMs + dayMs;
    assert.equal(decide(at(late), completed, rules).kind, "completed");
    assert.deepEqual(decide(at(late), failed, rules), {
      kind: "failed",
      code: "moderation_blocked",
      message: "no",
      watchMs: undefined,
    });
  });

  it("waits for an answer as long as the grace lasts", () => {
    assert.equal(decide(at(deadlineMs + rules.graceMs - 1), unanswered, rules).kind, "waiting");
    const verdict = decide(at(deadlineMs + rules.graceMs), unanswered, rules);
    assert.ok(verdict.kind === "failed" && verdict.code === "timeout");
  });
});

describe("a task that failed without the provider's word", () => {
  const watched = (ageMs: number, poll: PollResult) => decide(at(ageMs, { state: "failed" }), poll, rules);

  it("is polled each hour until a day after its deadline", () => {
    assert.deepEqual(watched(deadlineMs, { state: "queued" }), {
      kind: "watched",
      waitMs: 3_600_000,
      isLateSuccess: false,
    });
    assert.deepEqual(watched(deadlineMs + dayMs - 1, unanswered), {
      kind: "watched",
      waitMs: 3_600_000,
      isLateSuccess: false,
    });
    assert.deepEqual(watched(deadlineMs + dayMs, unanswered), {
      kind: "watched",
      waitMs: undefined,
      isLateSuccess: false,
    });
  });

  it("stays failed whatever the provider says, and a success ends the watch", () => {
    assert.deepEqual(watched(deadlineMs, completed), { kind: "watched", waitMs: undefined, isLateSuccess: true });
    assert.deepEqual(watched(deadlineMs, failed), { kind: "watched", waitMs: undefined, isLateSuccess: false });
  });
});

describe("a task that its provider does not find", () => {
  it("fails at the third such answer in a row, which a poll without an answer does not interrupt", () => {
    let task = at(1_000);
    for (const poll of [{ state: "missing" }, { state: "missing" }, unanswered] as const) {
      const transition = decide(task, poll, rules);
      assert.equal(transition.kind, "waiting");
      task = { ...task, ...(transition as Extract<Transition, { kind: "waiting" }>) };
    }
    assert.deepEqual([task.missing, task.unanswered], [2, 1]);
    const verdict = decide(task, { state: "missing" }, rules);
    assert.ok(verdict.kind === "failed" && verdict.code === "not_found" && verdict.watchMs === 3_600_000);
    const found = decide(task, { state: "queued" }, rules);
    assert.ok(found.kind === "waiting" && found.missing === 0 && found.unanswered === 0);
  });
});

test("polls without an answer wait twice as long each time, up to a minute, and as long as the provider asks for", () => {
  const waits = (asked: number) =>
    [0, 1, 2, 3, 4, 30].map((times) => {
      const transition = decide(at(0, { unanswered: times }), { ...unanswered, retryAfterSeconds: asked }, rules);
      return transition.kind === "waiting" ? transition.waitMs : undefined;
    });
  assert.deepEqual(waits(0), [10_000, 20_000, 40_000, 60_000, 60_000, 60_000]);
  assert.deepEqual(waits(30), [30_000, 30_000, 40_000, 60_000, 60_000, 60_000]);
  assert.deepEqual(waits(86_400), Array(6).fill(300_000));
});

test("a wait is drawn from half to one and a half of its length", () => {
  const waitFor = (drawn: number) => {
    const transition = decide(at(0), { state: "queued" }, { ...rules, random: () => drawn });
    return transition.kind === "waiting" ? transition.waitMs : undefined;
  };
  assert.deepEqual([waitFor(0), waitFor(0.5), waitFor(0.999_999)], [2_500, 5_000, 7_500]);
});

test("a length that was not delivered is given back by the prices of the charge, to the millisecond", () => {
  const refundOf = (seconds: number | undefined, charge = makeRunning().charge) => {
    const transition = decide(at(0, { charge }), { ...completed, seconds } as PollResult, rules);
    return transition.kind === "completed" ? transition.refundNanos : undefined;
  };
  assert.deepEqual(
    [undefined, 8, 9, 0, -1, Number.NaN].map((seconds) => refundOf(seconds)),
    Array(6).fill(0n),
  );
  assert.equal(refundOf(6), 200_000_000n);
  assert.equal(refundOf(7.9996), 0n);
  assert.equal(refundOf(0.07), 793_000_000n);
  assert.equal(refundOf(0.000_001), 799_900_000n);
});

test("pixels that were not delivered are given back in their proportion, beside the length", () => {
  const refundOf = (size: string | undefined, seconds?: number) => {
    const transition = decide(at(0), { ...completed, seconds, size } as PollResult, rules);
    return transition.kind === "completed" ? transition.refundNanos : undefined;
  };
  const whole = ["1280x720", "720x1280", "1792x1024", undefined, "", "720p", "0x720", "640x360x2", "99999999x1"];
  assert.deepEqual(
    whole.map((size) => refundOf(size)),
    Array(whole.length).fill(0n),
  );
  assert.equal(refundOf("640x360"), 600_000_000n, "a quarter of the pixels");
  assert.equal(refundOf("640x360", 4), 700_000_000n, "of half the length");
  assert.equal(refundOf("1792x1024", 6), 200_000_000n);
  assert.equal(refundOf("1x1"), 799_900_000n, "a millisecond costs something");
});
