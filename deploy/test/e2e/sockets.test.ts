import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { behaviourText } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { repository } from "../../tools/checks/run.ts";
import type { Json } from "./ask.ts";
import { weather, weatherSchema } from "./clients-cases.ts";
import { conversionCatalog, modelOf, providerNames } from "./conversion.ts";
import { sharedWorld } from "./shared-world.ts";
import { openSocket, refusedSocket } from "./socket-caller.ts";

const world = await sharedWorld(conversionCatalog);
const { relayUrl, fake } = world;

const tools = [weather.name, "now"].map((name) => ({
  type: "function",
  name,
  parameters: weatherSchema,
  strict: false,
}));
const callsOf = ({ output }: Json): Json[] => (output as Json[]).filter(({ type }) => type === "function_call");
const resultsOf = (calls: Json[], output: string): Json[] =>
  calls.map(({ call_id: id }) => ({ type: "function_call_output", call_id: id, output }));
const bodyOf = (rid: string): string => {
  const received = fake.received.find(({ headers }) => headers["x-request-id"] === rid);
  return JSON.stringify(received?.body);
};

for (const provider of providerNames) {
  for (const store of [true, false]) {
    test(`a loop of two tools over ${provider}, store: ${store}, each turn with what is new only`, async () => {
      const { secret, accountId } = await world.createCustomer();
      const socket = await openSocket(relayUrl, secret);
      const ofAll = { model: modelOf(provider), tools, store };
      fake.scriptNext(
        { thinking: "Let me see.", tools: [weather] },
        { tools: [{ name: "now", arguments: { city: "Rome" } }] },
        { text: "All done." },
      );
      const first = await socket.turn({ ...ofAll, input: "Do the first thing." });
      const second = await socket.turn({
        ...ofAll,
        previous_response_id: first.response["id"],
        input: resultsOf(callsOf(first.response), "result one"),
      });
      assert.equal(second.response["previous_response_id"], first.response["id"]);
      const third = await socket.turn({
        ...ofAll,
        previous_response_id: second.response["id"],
        input: resultsOf(callsOf(second.response), "result two"),
      });
      assert.deepEqual([third.text, third.last["type"]], ["All done.", "response.completed"]);
      const received = bodyOf(third.rid);
      const places = ["first thing", weather.name, "result one", "Rome", "result two"].map((words) =>
        received.indexOf(words),
      );
      assert.ok(
        places.every((place) => place > 0),
        received,
      );
      assert.doesNotMatch(received, /previous_response_id|response\.create/);
      const lines = await world.untilSettled(accountId, 3);
      assert.deepEqual(
        lines.map(({ rid, usage }) => [rid, usage?.endCause]),
        [first, second, third].map(({ rid }) => [rid, EndCause.COMPLETE]),
      );
      socket.webSocket.close();
    });
  }
}

describe("what a socket remembers", () => {
  const model = modelOf("messages");

  test("an earlier response can be continued twice, on streams of their own", async () => {
    const { secret, accountId } = await world.createCustomer();
    const socket = await openSocket(relayUrl, secret);
    const first = await socket.turn({ model, input: "One." });
    const fork = { model, previous_response_id: first.response["id"] };
    socket.send({ type: "response.create", ...fork, stream_id: "a", input: behaviourText({ text: "I am a." }) });
    socket.send({ type: "response.create", ...fork, stream_id: "b", input: behaviourText({ text: "I am b." }) });
    const [a, b] = await Promise.all([socket.ended("a"), socket.ended("b")]);
    assert.deepEqual([a.text, b.text], ["I am a.", "I am b."]);
    assert.ok([...a.events, ...b.events].every((event) => event["stream_id"] !== undefined));
    await world.untilSettled(accountId, 3);
    socket.webSocket.close();
  });

  test("a warm-up is free, and what it brought is part of the next turn", async () => {
    const { secret, accountId } = await world.createCustomer();
    const socket = await openSocket(relayUrl, secret);
    const warm = await socket.turn({ model, input: "Remember the blue door.", generate: false });
    assert.deepEqual([warm.response["output"], warm.last["type"]], [[], "response.completed"]);
    const next = await socket.turn({ model, previous_response_id: warm.response["id"], input: "Go." });
    assert.match(bodyOf(next.rid), /blue door.*Go\./);
    await world.untilSettled(accountId, 1);
    socket.webSocket.close();
  });

  test("nobody else's: neither another socket, nor another account, can continue a response", async () => {
    const [one, other] = [await world.createCustomer(), await world.createCustomer()];
    const socket = await openSocket(relayUrl, one.secret);
    const { response } = await socket.turn({ model, store: false, input: "Secret words." });
    for (const secret of [one.secret, other.secret]) {
      const stranger = await openSocket(relayUrl, secret);
      const { last } = await stranger.turn({
        model,
        store: false,
        previous_response_id: response["id"],
        input: "And?",
      });
      const error = last["error"] as Json;
      assert.deepEqual([last["type"], last["status"], error["code"]], ["error", 400, "previous_response_not_found"]);
      assert.equal(error["param"], "previous_response_id");
      stranger.webSocket.close();
    }
    await world.untilSettled(one.accountId, 1);
    socket.webSocket.close();
  });

  test("100 turns on one socket: the last one brings all before, and each is a line of the ledger", async () => {
    const { secret, accountId } = await world.createCustomer();
    const socket = await openSocket(relayUrl, secret);
    let previous: unknown;
    let rid = "";
    const rids: string[] = [];
    for (let number = 0; number < 100; number += 1) {
      const turn = await socket.turn({ model, previous_response_id: previous, input: `word-${number}.` });
      assert.equal(turn.last["type"], "response.completed", JSON.stringify(turn.last));
      previous = turn.response["id"];
      rid = turn.rid;
      rids.push(rid);
    }
    const received = bodyOf(rid);
    for (let number = 0; number < 100; number += 1) assert.ok(received.includes(`word-${number}.`));
    const lines = await world.untilSettled(accountId, 100);
    assert.deepEqual(lines.map((line) => line.rid).toSorted(), rids.toSorted());
    socket.webSocket.close();
  });
});

describe("who may open a socket, and for how long", () => {
  const model = modelOf("chat");

  test("a wrong key is told 401 over HTTP, as the same path without a handshake is 404", async () => {
    const refused = await refusedSocket(relayUrl, { authorization: "Bearer sk-wrong" });
    assert.deepEqual([refused.status, (refused.body["error"] as Json)["message"]], [401, "Invalid API key"]);
    assert.equal(typeof refused.headers["x-request-id"], "string");
    const plain = await fetch(`${relayUrl}/v1/responses`);
    assert.equal(plain.status, 404);
    await plain.text();
  });

  test("a key that was deleted ends its socket at its next turn", async () => {
    const { secret, keyId, accountId } = await world.createCustomer();
    const socket = await openSocket(relayUrl, secret);
    await socket.turn({ model, input: "One." });
    await world.authQuota.deleteKey({ keyId });
    await until("the key is deleted", async () => {
      const answer = await fetch(`${relayUrl}/v1/models`, { headers: { authorization: `Bearer ${secret}` } });
      await answer.text();
      return answer.status === 401;
    });
    // The look at keys of each second may be the first to see it, and tells nothing.
    const last = await Promise.race([socket.turn({ model, input: "Two." }).then((turn) => turn.last), socket.closed]);
    if (typeof last === "object") {
      assert.deepEqual([last["status"], (last["error"] as Json)["message"]], [401, "Invalid API key"]);
    }
    assert.equal(await socket.closed, 1008);
    await world.untilSettled(accountId, 1);
  });

  test("a socket that is cut in the middle of a turn is charged as a stream that is cut", async () => {
    const { secret, accountId } = await world.createCustomer();
    const socket = await openSocket(relayUrl, secret);
    socket.send({ type: "response.create", model, input: behaviourText({ outputTokens: 40, gapMs: 50 }) });
    await until(
      "some of it came",
      () => socket.events.filter(({ type }) => type === "response.output_text.delta").length > 3,
    );
    socket.webSocket.terminate();
    const [line] = await world.untilSettled(accountId, 1);
    assert.equal(line?.usage?.endCause, EndCause.CLIENT_GONE);
    assert.ok(line.amountNanos !== 0n);
  });
});

test("the README's example runs as pasted", async () => {
  const readme = await readFile(join(repository, "services/relay/README.md"), "utf8");
  const [, section = ""] = readme.split("## Responses over WebSocket\n");
  const [, script = ""] = /^```sh\n(.*?)^```$/ms.exec(section) ?? [];
  const { secret, accountId } = await world.createCustomer();
  const env = { PATH: process.env["PATH"], BASE_URL: relayUrl, API_KEY: secret };
  const mine = script.replaceAll("demo-chat", modelOf("gemini"));
  const { stdout } = await promisify(execFile)("sh", ["-c", mine], { env, timeout: 60_000 });
  assert.match(stdout, /"response\.completed".*"previous_response_id":"resp_.*"response\.completed"/s);
  await world.untilSettled(accountId, 2);
});
