import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { inTurn, roomInTurn, TurnShare } from "./turn-share.ts";

const large = 65_536;

let nowMs = 0;

const spend = (ms: number): void => void (nowMs += ms);

beforeEach(async () => {
  // A machine that stands still would spend a turn by itself.
  mock.method(performance, "now", () => nowMs);
  await nextTurn();
  await nextTurn();
});
afterEach(() => mock.restoreAll());

function startStream(steps: string[], name: string) {
  const share = new TurnShare({
    pause: () => void steps.push(`${name} pauses`),
    resume: () => void steps.push(`${name} resumes`),
  });
  return {
    share,
    read: (bytes: number, step: string) =>
      share.take(bytes, () => {
        steps.push(step);
        spend(6);
      }),
  };
}

test("what is too much for one turn is read in later ones, each stream in its order, and others in between", async () => {
  const steps: string[] = [];
  const [one, other] = [startStream(steps, "one"), startStream(steps, "other")];
  one.read(large, "one 1");
  one.read(large, "one 2");
  other.read(large, "other 1");
  one.share.take(0, () => steps.push("one ends"));
  assert.deepEqual(steps, ["one 1", "one pauses", "other pauses"]);
  const later = nextTurn().then(() => steps.push("a turn"));
  await later;
  await nextTurn();
  await nextTurn();
  assert.deepEqual(steps.slice(3), ["one 2", "a turn", "other 1", "other resumes", "one ends", "one resumes"]);
});

test("what comes while a waiting step is done is behind it", async () => {
  const steps: string[] = [];
  const busy = startStream(steps, "busy");
  busy.read(large, "busy");
  const { share } = startStream(steps, "s");
  share.take(large, () => {
    share.take(0, () => steps.push("second"));
    steps.push("first");
  });
  await nextTurn();
  await nextTurn();
  await nextTurn();
  assert.deepEqual(steps, ["busy", "s pauses", "first", "second", "s resumes"]);
});

test("a stream that brings little waits for none that brings much", () => {
  const steps: string[] = [];
  startStream(steps, "large").read(large, "large");
  startStream(steps, "small").read(100, "small");
  assert.deepEqual(steps, ["large", "small"]);
});

test("steps of nobody's stream are done in turns, too, and settle as they end", async () => {
  const steps: string[] = [];
  const doStep = (name: string) =>
    inTurn(() => {
      steps.push(name);
      spend(6);
      if (name === "third") throw new Error("refused");
    });
  const [first, second, third] = ["first", "second", "third"].map(doStep);
  assert.deepEqual(steps, ["first"]);
  const later = nextTurn().then(() => steps.push("a turn"));
  await Promise.all([first, second, later]);
  await assert.rejects(third ?? assert.fail(), { message: "refused" });
  assert.deepEqual(steps, ["first", "second", "a turn", "third"]);
});

test("what a step begins with promises is of its turn's time, and one such step is begun in a callback", async () => {
  const steps: string[] = [];
  const call = async (name: string): Promise<void> => {
    steps.push(`${name} begins`);
    await Promise.resolve();
    steps.push(`${name} is sent`);
    spend(3);
  };
  for (const name of ["a", "b", "c", "d"]) {
    new TurnShare({ pause: () => undefined, resume: () => undefined }).take(Infinity, () => void call(name));
  }
  assert.deepEqual(steps, ["a begins"]);
  // The first that waits is taken by itself, for nobody knows yet how many follow.
  await nextTurn();
  assert.deepEqual(steps.slice(1), ["a is sent", "b begins", "b is sent"]);
  await nextTurn();
  assert.deepEqual(steps.slice(4), ["c begins", "c is sent", "d begins", "d is sent"]);
});

test("what cannot be done in pieces waits for a turn that has room, one behind the other", async () => {
  const steps: string[] = [];
  const work = async (name: string): Promise<void> => {
    await roomInTurn();
    steps.push(name);
    spend(6);
  };
  assert.equal(roomInTurn(), undefined);
  spend(6);
  const later = nextTurn().then(() => nextTurn().then(() => steps.push("a turn")));
  await Promise.all([work("one"), work("other"), later]);
  assert.deepEqual(steps, ["one", "a turn", "other"]);
});
