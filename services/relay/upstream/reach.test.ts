import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, test } from "node:test";
import { until } from "#shared/testing/until.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { reachUpstream, type OutgoingCall } from "./reach.ts";
import { readWhole } from "./whole.ts";
import {
  type Answering,
  fine,
  refusing,
  resetting,
  serve,
  away,
  createReach,
  outgoingTo,
  servedBy,
  failureOf,
} from "../testing/reached.ts";

test("the time of an upstream that failed, and behind which none was asked, is after the relay's own", async () => {
  await using only = await serve("only", refusing(500));
  await using reach = createReach();
  const outgoing = outgoingTo([only.upstream]);
  await failureOf(reach, [only.upstream], outgoing);
  const { sentAt, awaitedMs } = outgoing.call.times;
  assert.ok(sentAt > 0);
  assert.equal(awaitedMs, 0);
});

describe("the next upstream is asked", () => {
  for (const status of [401, 402, 403, 429, 500, 502, 503, 529]) {
    test(`after ${status}, and its answer is the caller's`, async () => {
      await using first = await serve("first", refusing(status));
      await using second = await serve("second");
      await using reach = createReach();
      assert.equal(await servedBy(reach, [first.upstream, second.upstream]), "second");
      assert.deepEqual([first.seen.length, second.seen.length], [1, 1]);
      assert.deepEqual(reach.underWay(), [0, 0]);
      const [line] = reach.linesWith("upstream failed");
      assert.match(String(line?.["rid"]), /^[0-9a-f-]{36}$/);
      assert.equal(line?.["upstream"], "first");
    });
  }

  test("after 400 that tells of trouble with our account there", async () => {
    const error = { type: "invalid_request_error", message: "Your credit balance is too low to access the API." };
    await using first = await serve("first", refusing(400, {}, error));
    await using second = await serve("second");
    await using reach = createReach();
    assert.equal(await servedBy(reach, [first.upstream, second.upstream]), "second");
  });

  test("after a connection that was never made", async () => {
    await using second = await serve("second");
    await using reach = createReach();
    const upstreams = [away("first"), second.upstream];
    const outgoing = outgoingTo(upstreams);
    assert.equal(await servedBy(reach, upstreams, outgoing), "second");
    assert.ok(outgoing.call.times.awaitedMs > 0, "the first one was waited for");
    const attempts = await reach.samples("relay_upstream_attempts_total");
    assert.equal(attempts.length, 2);
    assert.match(attempts.join("\n"), /upstream="first",outcome="not_sent"[^]*upstream="second",outcome="answered"/);
    assert.match((await reach.samples("relay_failovers_total")).join("\n"), /\{upstream="first"[^\n]* 1$/);
    const faults = await reach.samples("relay_upstream_faults_total");
    assert.match(faults.join("\n"), /^[^\n]*\{upstream="first",reason="connect"[^\n]* 1$/);
  });

  test("though the error before is longer than is read, or never ends", { timeout: 20_000 }, async () => {
    await using long = await serve("long", (_, response) => void response.writeHead(503).end("x".repeat(300_000)));
    const patience = { idleTimeoutMs: 600_000, totalTimeoutMs: 600_000 };
    await using endless = await serve("endless", (_, response) => void response.writeHead(503).write("{"), patience);
    await using last = await serve("last");
    await using reach = createReach();
    assert.equal(await servedBy(reach, [long.upstream, endless.upstream, last.upstream]), "last");
    assert.deepEqual(reach.underWay(), [0, 0, 0]);
  });
});

describe("no other upstream is asked: this one may have done the work, or the request is at fault", () => {
  for (const status of [400, 404, 408, 409, 413, 422, 501, 504, 307, 204]) {
    test(`after ${status}`, async () => {
      await using first = await serve("first", refusing(status, { location: "/elsewhere" }));
      await using second = await serve("second");
      await using reach = createReach();
      await failureOf(reach, [first.upstream, second.upstream]);
      assert.deepEqual([first.seen.length, second.seen.length], [1, 0]);
      assert.deepEqual(reach.underWay(), [0]);
    });
  }

  const silent: Answering = () => undefined;
  const ambiguous: [string, Answering, Partial<Upstream>, string][] = [
    ["the connection was reset after the request", resetting, {}, "upstream_unreachable"],
    ["the connection was closed after the request", ({ socket }) => void socket.destroy(), {}, "upstream_unreachable"],
    ["no first byte came in time", silent, { firstByteTimeoutMs: 100 }, "upstream_timeout"],
    ["the total time was over before the head", silent, { totalTimeoutMs: 100 }, "upstream_timeout"],
  ];
  for (const [what, answering, changes, name] of ambiguous) {
    test(`after ${what}`, async () => {
      await using first = await serve("first", answering, changes);
      await using second = await serve("second");
      await using reach = createReach();
      assert.equal((await failureOf(reach, [first.upstream, second.upstream])).name, name);
      assert.equal(second.seen.length, 0);
      assert.deepEqual(reach.underWay(), [0]);
    });
  }

  test("when the ambiguous one comes second, it is told and not the answer before it", async () => {
    await using first = await serve("first", refusing(503));
    await using second = await serve("second", resetting);
    await using third = await serve("third");
    await using reach = createReach();
    const failure = await failureOf(reach, [first.upstream, second.upstream, third.upstream]);
    assert.deepEqual([failure.name, failure.upstream, third.seen.length], ["upstream_unreachable", "second", 0]);
  });
});

test("no upstream is asked twice in a call, also when the model stands on it under two names", async () => {
  await using first = await serve("first", refusing(503));
  await using second = await serve("second", refusing(503));
  await using reach = createReach();
  await failureOf(reach, [first.upstream, first.upstream, second.upstream, first.upstream]);
  assert.deepEqual([first.seen.length, second.seen.length], [1, 1]);
});

describe("when all fail, the last real answer decides what the caller is told", () => {
  test("the last of several", async () => {
    await using first = await serve("first", refusing(429));
    await using second = await serve("second", refusing(500));
    await using reach = createReach();
    const failure = await failureOf(reach, [first.upstream, second.upstream]);
    assert.deepEqual([failure.name, failure.detail], ["upstream_error", "words of 500"]);
  });

  test("the one before a connection that was never made", async () => {
    await using first = await serve("first", refusing(429));
    await using reach = createReach();
    const failure = await failureOf(reach, [first.upstream, away("second"), away("third")]);
    assert.deepEqual([failure.name, failure.upstream], ["upstream_rate", "first"]);
  });

  test("the one before an upstream whose dialect cannot carry the request, which is not asked", async () => {
    await using first = await serve("first", refusing(503));
    await using second = await serve("second");
    await using third = await serve("third");
    await using reach = createReach();
    const converted = { ...second.upstream, dialects: ["anthropic-messages" as const] };
    const speaking = (upstreams: Upstream[]): OutgoingCall =>
      outgoingTo(upstreams, "openai-chat", { modalities: ["text", "audio"] });
    const both = [first.upstream, converted];
    const failure = await failureOf(reach, both, speaking(both));
    assert.deepEqual([failure.name, failure.upstream, second.seen.length], ["upstream_unavailable", "first", 0]);
    assert.deepEqual(reach.underWay(), [0, 0]);
    const all = [...both, third.upstream];
    assert.equal(await servedBy(reach, all, speaking(all)), "third", "and the one behind it is");
  });

  test("the one before upstreams that are left alone", async () => {
    await using first = await serve("first", refusing(500));
    await using second = await serve("second", refusing(429));
    await using reach = createReach();
    await failureOf(reach, [away("away"), second.upstream]);
    assert.equal((await failureOf(reach, [first.upstream, second.upstream])).name, "upstream_error");
    assert.equal(second.seen.length, 1);
  });

  test("nobody was there at all", async () => {
    await using reach = createReach();
    assert.equal((await failureOf(reach, [away("first"), away("second")])).name, "upstream_unreachable");
  });
});

describe("upstreams are left alone", () => {
  test("for as long as a 429 asks for, one upstream model at a time", async () => {
    await using first = await serve("first", refusing(429, { "retry-after": "30" }));
    await using second = await serve("second");
    await using reach = createReach();
    assert.equal(await servedBy(reach, [first.upstream, second.upstream]), "second");
    assert.equal(await servedBy(reach, [first.upstream, second.upstream]), "second");
    assert.equal(first.seen.length, 1);
    first.answer(fine);
    assert.equal(
      await servedBy(reach, [second.upstream, first.upstream].toReversed(), {
        ...outgoingTo([]),
        routes: [{ upstream: first.upstream, model: "another", priority: 0, weight: 0 }],
      }),
      "first",
    );
    const coolDowns = await reach.samples("relay_upstream_cool_downs_total");
    assert.match(coolDowns.join("\n"), /upstream="first",reason="rate"[^\n]* 1$/);
    assert.match((await reach.samples("relay_upstream_skips_total")).join("\n"), /reason="rate"[^\n]* 1$/);
  });

  test("Upstream rate limit exceeded: answered at once when every upstream of the model cools down", async () => {
    await using first = await serve("first", refusing(429));
    await using reach = createReach();
    for (const upstream of ["first", ""]) {
      const failure = await failureOf(reach, [first.upstream]);
      assert.deepEqual([failure.name, failure.upstream], ["upstream_rate", upstream]);
    }
    assert.equal(first.seen.length, 1);
  });

  test("problem with the service's account at upstream: the whole upstream, until a minute has passed", async () => {
    await using first = await serve("first", refusing(401));
    await using reach = createReach();
    for (const upstream of ["first", ""]) {
      const failure = await failureOf(reach, [first.upstream]);
      assert.deepEqual([failure.name, failure.upstream], ["upstream_account", upstream]);
    }
    assert.equal(first.seen.length, 1);
  });

  test("429 with insufficient_quota is trouble with the account, not a rate", async () => {
    await using first = await serve("first", refusing(429, {}, { message: "No money", code: "insufficient_quota" }));
    await using reach = createReach();
    for (let count = 0; count < 2; count += 1)
      assert.equal((await failureOf(reach, [first.upstream])).name, "upstream_account");
    assert.equal(first.seen.length, 1);
  });

  test("a 503 that says for how long is obeyed; one that does not is asked again", async () => {
    await using first = await serve("first", refusing(503));
    await using reach = createReach();
    await failureOf(reach, [first.upstream]);
    first.answer(refusing(503, { "retry-after": "30" }));
    await failureOf(reach, [first.upstream]);
    const failure = await failureOf(reach, [first.upstream]);
    assert.deepEqual([failure.name, failure.upstream, first.seen.length], ["upstream_unavailable", "", 2]);
  });

  const failing: [string, Answering][] = [
    ["500", refusing(500)],
    ["502", refusing(502)],
    ["503", refusing(503)],
    ["504", refusing(504)],
    ["resets", resetting],
  ];
  for (const [what, answering] of failing) {
    test(`Upstream temporarily unavailable: after three failures in a row the circuit is open: ${what}`, async () => {
      await using first = await serve("first", answering);
      await using reach = createReach();
      for (let count = 0; count < 3; count += 1) await failureOf(reach, [first.upstream]);
      const failure = await failureOf(reach, [first.upstream]);
      assert.deepEqual([failure.name, failure.upstream, first.seen.length], ["upstream_unavailable", "", 3]);
      assert.match((await reach.samples("relay_upstream_circuit")).join("\n"), /upstream="first"[^\n]* 2$/);
      assert.ok(reach.linesWith("circuit opened").some(({ rid }) => rid !== undefined));
    });
  }

  for (const status of [400, 404, 408, 422, 501, 529]) {
    test(`a ${status} is no sign of ill health: the circuit stays closed`, async () => {
      await using first = await serve("first", refusing(status));
      await using reach = createReach();
      for (let count = 0; count < 6; count += 1) await failureOf(reach, [first.upstream]);
      assert.equal(first.seen.length, 6);
    });
  }

  test("a caller who goes away is no sign of ill health", async () => {
    await using first = await serve("first", () => undefined);
    await using reach = createReach();
    for (let count = 1; count <= 6; count += 1) {
      const outgoing = outgoingTo([first.upstream]);
      const failing = failureOf(reach, [], outgoing);
      await until("the upstream was asked", () => first.seen.length === count);
      outgoing.signal.abort();
      await failing;
    }
    assert.deepEqual([reach.health.list(0)[0]?.circuit, reach.underWay()], ["closed", [0]]);
  });
});

test("a caller who has gone is not served by the next upstream", async () => {
  await using second = await serve("second");
  await using reach = createReach();
  const outgoing = outgoingTo([away("first"), second.upstream]);
  const failing = failureOf(reach, [], outgoing);
  outgoing.signal.abort();
  await failing;
  assert.equal(second.seen.length, 0);
});

test("Service stopped or busy: a call above max_concurrent goes to the next upstream, or waits a moment for a slot", async () => {
  const waiting: ServerResponse[] = [];
  await using first = await serve("first", (_, response) => void waiting.push(response.writeHead(200)), {
    maxConcurrent: 1,
    firstByteTimeoutMs: 60_000,
    idleTimeoutMs: 60_000,
  });
  await using second = await serve("second", fine, { maxConcurrent: 1 });
  await using reach = createReach();
  const slow = reachUpstream(outgoingTo([first.upstream]), reach);
  await until("the call is under way", () => waiting.length === 1);
  assert.equal(await servedBy(reach, [first.upstream, second.upstream]), "second");
  assert.equal((await failureOf(reach, [first.upstream])).name, "service_unavailable");
  assert.match((await reach.samples("relay_upstream_live_calls")).join("\n"), /upstream="first"[^\n]* 1$/);
  waiting[0]?.flushHeaders();
  const { answer } = await slow;
  assert.equal((await failureOf(reach, [first.upstream])).name, "service_unavailable", "until the end of the answer");
  first.answer(fine);
  const patient = servedBy(reach, [first.upstream]);
  waiting[0]?.end("slow");
  await readWhole(answer, 100);
  assert.equal(await patient, "first");
  assert.equal(await servedBy(reach, [first.upstream]), "first");
});

test("an upstream gets its own model, path, credential and headers, and the call's id", async () => {
  await using first = await serve("first", refusing(503), { credential: "first-key", headers: ["X-Team", "one"] });
  await using second = await serve("second", fine, { credential: "second-key", headers: ["OpenAI-Project", "two"] });
  await using reach = createReach();
  const outgoing = outgoingTo([first.upstream, second.upstream]);
  await servedBy(reach, [], outgoing);
  const [one, two] = [first.seen[0], second.seen[0]];
  assert.deepEqual([one?.url, two?.url], ["/base/v1/chat/completions", "/base/v1/chat/completions"]);
  assert.deepEqual([one?.headers["x-team"], two?.headers["x-team"]], ["one", undefined]);
  assert.deepEqual([one?.headers["openai-project"], two?.headers["openai-project"]], [undefined, "two"]);
  assert.deepEqual([one?.headers.authorization, two?.headers.authorization], ["Bearer first-key", "Bearer second-key"]);
  for (const request of [one, two]) {
    assert.equal(request?.headers["x-request-id"], outgoing.call.rid);
    assert.deepEqual(
      [request?.headers["content-type"], request?.headers.accept],
      ["application/json", "application/json"],
    );
    assert.equal(request?.headers["accept-encoding"], "identity");
  }
});

test("a credential, a header and an address are in no log line and in nothing that is told", async () => {
  const headers = ["X-Org", "organisation-of-ours"];
  const words = "secret-of-ours of organisation-of-ours at 127.0.0.1 is wrong";
  await using first = await serve("first", refusing(500, {}, { message: words }), { headers });
  await using reach = createReach();
  const { detail, cause } = await failureOf(reach, [first.upstream, away("second")]);
  assert.equal(detail, "[hidden] of [hidden] at [hidden] is wrong");
  assert.doesNotMatch(JSON.stringify([reach.lines, cause]), /-of-ours/);
});
