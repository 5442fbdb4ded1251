import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { until } from "#shared/testing/until.ts";
import type { DialectName } from "../dialects/dialect.ts";
import { type Answering, serve, away, createReach, outgoingTo, servedBy, failureOf } from "../testing/reached.ts";
import { reachUpstream } from "./reach.ts";
import { readWhole } from "./whole.ts";

describe("a stream that begins with an error", () => {
  const streamed: Answering = (_, response) =>
    void response.writeHead(200, { "content-type": "text/event-stream" }).end("fine");
  const beginning =
    (...pieces: (string | object)[]): Answering =>
    (_, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (const piece of pieces) {
        response.write(typeof piece === "string" ? piece : `data: ${JSON.stringify(piece)}\n\n`);
      }
      response.end();
    };
  const overloaded = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } };
  const asked = (upstreams: Upstream[], dialect: DialectName = "openai-chat") =>
    outgoingTo(upstreams, dialect, { stream: true });

  const errors: [string, DialectName, (string | object)[]][] = [
    ["chat's, with its status as a code", "openai-chat", [{ error: { code: 502, message: "x" } }]],
    [
      "chat's, behind a comment",
      "openai-chat",
      [": PROCESSING\n\n", { error: { type: "server_error", message: "x" } }],
    ],
    ["chat's, of our account", "openai-chat", [{ error: { code: "insufficient_quota", message: "x" } }]],
    ["Messages', by its name", "anthropic-messages", ["event: error\n", overloaded]],
    ["Responses', flat", "openai-responses", [{ type: "error", code: "rate_limit_exceeded", message: "x" }]],
    [
      "Responses', in a failed response",
      "openai-responses",
      [{ type: "response.failed", response: { error: { code: "server_error", message: "x" } } }],
    ],
    [
      "chat's, by MiniMax's number",
      "openai-chat",
      [{ id: "x", choices: null, base_resp: { status_code: 1002, status_msg: "rate limit" } }],
    ],
    ["chat's, in pieces", "openai-chat", ['data: {"error":', '{"code":502,"message":"x"}}\n', "\n"]],
    ["one that has no blank line behind it", "openai-chat", ['data: {"error":{"code":503,"message":"x"}}']],
  ];
  for (const [what, dialect, pieces] of errors) {
    test(`has the next upstream asked: ${what}`, async () => {
      await using first = await serve("first", beginning(...pieces), { dialects: [dialect] });
      await using second = await serve("second", streamed, { dialects: [dialect] });
      await using reach = createReach();
      const upstreams = [first.upstream, second.upstream];
      const outgoing = asked(upstreams, dialect);
      assert.equal(await servedBy(reach, upstreams, outgoing), "second");
      assert.equal(outgoing.signal.isBillable, true);
      await until("nothing is under way", () => reach.underWay().every((count) => count === 0));
      assert.match((await reach.samples("relay_failovers_total")).join("\n"), /\{upstream="first"[^\n]* 1$/);
    });
  }

  test("is the caller's where the error is one of the request, or comes behind something else", async () => {
    const refused = { error: { type: "invalid_request_error", code: "context_length_exceeded", message: "x" } };
    const begun = { choices: [{ index: 0, delta: { role: "assistant" }, finish_reason: null }] };
    for (const pieces of [[refused], [begun, { error: { code: 502, message: "x" } }]]) {
      await using first = await serve("first", beginning(...pieces));
      await using second = await serve("second", streamed);
      await using reach = createReach();
      const { answer, route } = await reachUpstream(asked([first.upstream, second.upstream]), reach);
      assert.equal(route.upstream.name, "first");
      const bytes = (await readWhole(answer, 1_000)).toString();
      assert.equal(bytes, pieces.map((piece) => `data: ${JSON.stringify(piece)}\n\n`).join(""), "nothing was taken");
      assert.equal(second.seen.length, 0);
    }
  });

  test("is the caller's where no other upstream is left", async () => {
    await using only = await serve("only", beginning({ error: { code: 502, message: "x" } }));
    await using reach = createReach();
    const { answer } = await reachUpstream(asked([only.upstream]), reach);
    assert.match((await readWhole(answer, 1_000)).toString(), /502/);
  });

  test("tells the caller the error by its status where the next one cannot serve either", async () => {
    await using first = await serve("first", beginning({ error: { code: 429, message: "x" } }));
    await using reach = createReach();
    const upstreams = [first.upstream, away("second")];
    assert.equal((await failureOf(reach, upstreams, asked(upstreams))).name, "upstream_rate");
  });

  test("is not waited for for long", { timeout: 20_000 }, async () => {
    const silent: Answering = (_, response) =>
      response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
    await using first = await serve("first", silent);
    await using second = await serve("second", streamed);
    await using reach = createReach();
    const outgoing = asked([first.upstream, second.upstream]);
    const { answer, route } = await reachUpstream(outgoing, reach);
    assert.equal(route.upstream.name, "first");
    answer.abort();
    await until("nothing is under way", () => reach.underWay().every((count) => count === 0));
  });
});

describe("an answer of 200 that is an error and nothing else", () => {
  const whole =
    (body: object, more = ""): Answering =>
    (_, response) =>
      void response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body) + more);
  const down = { error: { code: 502, message: "x" } };

  for (const [what, dialect, fields, body] of [
    ["where a stream was asked for", "openai-chat", { stream: true }, down],
    ["where a whole answer was asked for", "openai-chat", {}, down],
    [
      "of Messages",
      "anthropic-messages",
      { stream: true },
      { type: "error", error: { type: "api_error", message: "x" } },
    ],
  ] as const) {
    test(`has the next upstream asked: ${what}`, async () => {
      await using first = await serve("first", whole(body), { dialects: [dialect] });
      await using second = await serve("second", undefined, { dialects: [dialect] });
      await using reach = createReach();
      const upstreams = [first.upstream, second.upstream];
      const outgoing = outgoingTo(upstreams, dialect, fields);
      assert.equal(await servedBy(reach, upstreams, outgoing), "second");
      await until("nothing is under way", () => reach.underWay().every((count) => count === 0));
    });
  }

  const choices = [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }];
  for (const [what, body, more] of [
    ["stands beside an answer", { ...down, choices }, ""],
    ["is the request's own fault", { error: { code: 400, message: "x" } }, ""],
    ["tells of use", { ...down, usage: { prompt_tokens: 9, completion_tokens: 0, total_tokens: 9 } }, ""],
    ["is too long for one", down, " ".repeat(10_000)],
  ] as const) {
    test(`is the caller's where it ${what}`, async () => {
      await using first = await serve("first", whole(body, more));
      await using second = await serve("second");
      await using reach = createReach();
      const { answer, route } = await reachUpstream(outgoingTo([first.upstream, second.upstream]), reach);
      assert.equal(route.upstream.name, "first");
      assert.equal((await readWhole(answer, 20_000)).toString(), JSON.stringify(body) + more, "nothing was taken");
    });
  }

  test("is not waited for for long", { timeout: 20_000 }, async () => {
    await using first = await serve("first", (_, response) => {
      response.writeHead(200, { "content-type": "application/json" }).write("   ");
    });
    await using second = await serve("second");
    await using reach = createReach();
    const { answer, route } = await reachUpstream(outgoingTo([first.upstream, second.upstream]), reach);
    assert.equal(route.upstream.name, "first");
    answer.abort();
    await until("nothing is under way", () => reach.underWay().every((count) => count === 0));
  });
});
