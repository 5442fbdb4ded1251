import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { upstreamOf } from "../testing/fakes.ts";
import { createUpstreamHealth, retryAfterMs, type Obstacle, type Place, type UpstreamHealth } from "./health.ts";

const upstream = upstreamOf({ openAfterFailures: 3, maxConcurrent: 1_000 });
const route = { upstream, model: "m" };

function placeOf(entry: Place | Obstacle): Place {
  if (typeof entry === "string") assert.fail(`not let in: ${entry}`);
  return entry;
}

/** Enters, learns, leaves. */
function attempt(health: UpstreamHealth, verdict: "up" | "down" | "unknown", nowMs: number, at = route) {
  const place = placeOf(health.enter(at, nowMs));
  const change = health.judge(place, verdict, nowMs);
  health.leave(place);
  return change;
}

/** A health whose upstream has just opened at 0 ms. */
function opened(at = route): UpstreamHealth {
  const health = createUpstreamHealth();
  for (let count = 0; count < at.upstream.openAfterFailures; count += 1) attempt(health, "down", 0, at);
  return health;
}

const circuit = (health: UpstreamHealth, nowMs: number) => health.list(nowMs)[0]?.circuit;

test("the circuit opens after so many failures in a row, not after as many with a success between", () => {
  const health = createUpstreamHealth();
  const verdicts = ["down", "down", "up", "down", "down"] as const;
  for (const verdict of verdicts) assert.equal(attempt(health, verdict, 0), undefined);
  assert.equal(attempt(health, "down", 0), "opened");
  assert.equal(health.enter(route, 0), "unavailable");
  assert.equal(circuit(health, 0), "open");
});

test("0 failures to open means never", () => {
  const health = createUpstreamHealth();
  const never = { upstream: upstreamOf({ openAfterFailures: 0 }), model: "m" };
  for (let count = 0; count < 2_000; count += 1) assert.equal(attempt(health, "down", 0, never), undefined);
});

test("after the pause one probe goes, and nobody beside it; its success closes the circuit", () => {
  const health = opened();
  assert.equal(health.enter(route, 999), "unavailable");
  assert.equal(circuit(health, 1_000), "half-open");
  const probe = placeOf(health.enter(route, 1_000));
  assert.equal(health.enter(route, 1_000), "unavailable");
  assert.equal(health.judge(probe, "up", 1_100), "closed");
  for (let count = 0; count < 3; count += 1) placeOf(health.enter(route, 1_100));
  assert.equal(circuit(health, 1_100), "closed");
});

test("the pause doubles with every probe that fails, up to a minute, and is a second again after a success", () => {
  const health = opened();
  const pauses: number[] = [];
  for (let nowMs = 1_000; pauses.length < 9;) {
    attempt(health, "down", nowMs);
    const failedAtMs = nowMs;
    while (health.list(nowMs)[0]?.circuit === "open") nowMs += 1_000;
    pauses.push((nowMs - failedAtMs) / 1_000);
  }
  assert.deepEqual(pauses, [2, 4, 8, 16, 32, 60, 60, 60, 60]);
  const laterMs = 1_000_000;
  assert.equal(attempt(health, "up", laterMs), "closed");
  for (let count = 0; count < 3; count += 1) attempt(health, "down", laterMs);
  assert.equal(circuit(health, laterMs + 999), "open");
  assert.equal(circuit(health, laterMs + 1_000), "half-open");
});

test("a probe that hangs is followed by another after the next pause; one that its caller leaves, by the next call", () => {
  const health = opened();
  placeOf(health.enter(route, 1_000));
  assert.equal(health.enter(route, 2_999), "unavailable");
  const second = placeOf(health.enter(route, 3_000));
  health.judge(second, "unknown", 3_500);
  assert.equal(placeOf(health.enter(route, 3_500)).isProbe, true);
});

test("failures of calls that were under way when the circuit opened do not lengthen the pause", () => {
  const health = createUpstreamHealth();
  const places = Array.from({ length: 50 }, () => placeOf(health.enter(route, 0)));
  const changes = places.map((place, index) => health.judge(place, "down", index < 3 ? 10 : 500)).filter(Boolean);
  assert.deepEqual(changes, ["opened"]);
  assert.equal(circuit(health, 1_010), "half-open");
});

test("a rate limit leaves the upstream's model alone for as long as it asks, at most a minute, 5 s unasked", () => {
  for (const [asked, keptMs] of [
    [undefined, 5_000],
    [1_500, 1_500],
    [3_600_000, 60_000],
  ] as const) {
    const health = createUpstreamHealth();
    assert.equal(health.coolDown(placeOf(health.enter(route, 0)), "rate", asked, 0), true);
    assert.equal(health.enter(route, keptMs - 1), "rate");
    placeOf(health.enter({ ...route, model: "other" }, 0));
    placeOf(health.enter(route, keptMs));
  }
});

test("a Retry-After of 0 leaves nobody alone, and a shorter one does not shorten what is under way", () => {
  const health = createUpstreamHealth();
  const place = placeOf(health.enter(route, 0));
  assert.equal(health.coolDown(place, "rate", 0, 0), false);
  placeOf(health.enter(route, 0));
  health.coolDown(place, "rate", 10_000, 0);
  health.coolDown(place, "rate", 1_000, 0);
  assert.equal(health.enter(route, 9_999), "rate");
});

test("account trouble leaves the whole upstream alone for a minute", () => {
  const health = createUpstreamHealth();
  assert.equal(health.coolDownAccount(placeOf(health.enter(route, 0)), 0), true);
  assert.equal(health.enter({ ...route, model: "other" }, 59_999), "account");
  placeOf(health.enter(route, 60_000));
});

test("an upstream that does not cool down is asked again at once", () => {
  const health = createUpstreamHealth();
  const hot = { upstream: upstreamOf({ coolsDown: false }), model: "m" };
  const place = placeOf(health.enter(hot, 0));
  assert.equal(health.coolDown(place, "rate", 10_000, 0), false);
  assert.equal(health.coolDownAccount(place, 0), false);
  placeOf(health.enter(hot, 0));
});

test("no more calls than max_concurrent are under way; each gives its place back once", () => {
  const health = createUpstreamHealth();
  const narrow = { upstream: upstreamOf({ maxConcurrent: 2 }), model: "m" };
  const [first, second] = [placeOf(health.enter(narrow, 0)), placeOf(health.enter(narrow, 0))];
  assert.equal(health.enter(narrow, 0), "busy");
  health.leave(first);
  health.leave(first);
  const third = placeOf(health.enter(narrow, 0));
  assert.equal(health.enter(narrow, 0), "busy");
  for (const place of [second, third]) health.leave(place);
  assert.deepEqual(health.list(0), [{ name: "somewhere", underWay: 0, circuit: "closed" }]);
});

test("a busy upstream does not use up the probe of its open circuit", () => {
  const narrow = { upstream: upstreamOf({ maxConcurrent: 1, openAfterFailures: 1 }), model: "m" };
  const health = createUpstreamHealth();
  const slow = placeOf(health.enter(narrow, 0));
  health.judge(slow, "down", 0);
  assert.equal(health.enter(narrow, 1_000), "busy");
  health.leave(slow);
  assert.equal(placeOf(health.enter(narrow, 1_000)).isProbe, true);
});

test("a changed upstream starts afresh, an unchanged one does not, and one that is gone is forgotten", () => {
  const health = opened();
  const changed = { ...upstream, id: "changed" };
  health.retain([upstream, changed]);
  assert.equal(health.enter(route, 0), "unavailable");
  placeOf(health.enter({ ...route, upstream: changed }, 0));
  health.retain([changed]);
  assert.equal(health.list(0).length, 1);
  const orphan = placeOf(health.enter(route, 0));
  health.retain([]);
  health.leave(orphan);
  assert.deepEqual(health.list(0), []);
});

test("whatever happens, places are never lost or lent twice, and an open circuit always ends", () => {
  const steps = fc.array(
    fc.record({
      waitMs: fc.integer({ min: 0, max: 70_000 }),
      verdict: fc.constantFrom("up", "down", "unknown", "rate", "account", "hang"),
    }),
    { maxLength: 200 },
  );
  const narrow = { upstream: upstreamOf({ maxConcurrent: 3, openAfterFailures: 2 }), model: "m" };
  fc.assert(
    fc.property(steps, (taken) => {
      const health = createUpstreamHealth();
      const held: Place[] = [];
      let nowMs = 0;
      for (const { waitMs, verdict } of taken) {
        nowMs += waitMs;
        const place = health.enter(narrow, nowMs);
        if (typeof place === "string") continue;
        held.push(place);
        if (verdict === "hang") continue;
        if (verdict === "rate") health.coolDown(place, "rate", waitMs, nowMs);
        else if (verdict === "account") health.coolDownAccount(place, nowMs);
        else health.judge(place, verdict, nowMs);
        health.leave(place);
        held.pop();
      }
      assert.ok(held.length <= 3);
      assert.equal(health.list(nowMs)[0]?.underWay ?? 0, held.length);
      for (const place of held) health.leave(place);
      placeOf(health.enter(narrow, nowMs + 60_000));
    }),
  );
});

test("Retry-After is read as seconds or as a date, and anything else as none", () => {
  const nowMs = Date.parse("Fri, 20 Nov 2026 10:00:00 GMT");
  const wanted: [string | string[] | undefined, number | undefined][] = [
    ["7", 7_000],
    ["0", 0],
    [" 1.5 ", 1_500],
    ["Fri, 20 Nov 2026 10:00:30 GMT", 30_000],
    ["Fri, 20 Nov 2026 09:00:00 GMT", 0],
    [undefined, undefined],
    ["", undefined],
    ["soon", undefined],
    ["-5", undefined],
    ["in 7", undefined],
    ["1e3", undefined],
    ["Infinity", undefined],
    [["7", "8"], undefined],
  ];
  for (const [value, ms] of wanted) assert.equal(retryAfterMs(value, nowMs), ms, String(value));
});

test("an upstream nobody has asked yet is closed and idle; calls under way are counted", () => {
  const health = createUpstreamHealth();
  assert.deepEqual(health.look(upstream, ["m"], 0), { underWay: 0, circuit: "closed" });
  const place = placeOf(health.enter(route, 0));
  assert.deepEqual(health.look(upstream, ["m"], 0), { underWay: 1, circuit: "closed" });
  health.leave(place);
});

test("an open circuit tells until when, then that one call may try", () => {
  const health = opened();
  assert.deepEqual(health.look(upstream, ["m"], 999), { underWay: 0, circuit: "open", closedUntilMs: 1_000 });
  assert.deepEqual(health.look(upstream, ["m"], 1_000), { underWay: 0, circuit: "half-open" });
});

test("an upstream cools down when it refuses the account, or when all its models do, until the first of them is back", () => {
  const health = createUpstreamHealth();
  const look = (nowMs: number) => health.look(upstream, ["m", "n"], nowMs);
  health.coolDown(placeOf(health.enter(route, 0)), "rate", 5_000, 0);
  assert.equal(look(0).circuit, "closed", "calls go to the other one");
  const other = placeOf(health.enter({ upstream, model: "n" }, 0));
  health.coolDown(other, "rate", 9_000, 0);
  assert.deepEqual(look(0), { underWay: 2, circuit: "cooling-down", closedUntilMs: 5_000 });
  assert.equal(look(5_000).circuit, "closed");
  health.coolDownAccount(other, 5_000);
  assert.deepEqual(look(5_000), { underWay: 2, circuit: "cooling-down", closedUntilMs: 65_000 });
  assert.equal(health.look(upstream, [], 65_000).circuit, "closed", "no model runs there");
});
