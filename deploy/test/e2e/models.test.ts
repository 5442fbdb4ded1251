import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { parse } from "yaml";
import { type Behaviour, behaviourText } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { ask, bodyOf, chat, type Json, makeCall, messages, ridOf } from "./ask.ts";
import { type CatalogSections, catalogText, modelOn, priceVersion, testCatalog } from "./catalog.ts";
import { costOf } from "./charge.ts";
import { checkRefusal, rows } from "./refusal.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld();
const { relayUrl, fake } = world;
const { catalogFile } = world.stack;
const original = testCatalog(fake.url);

const list = (headers: Record<string, string>) => ask(`${relayUrl}/v1/models`, { method: "GET", headers });
const idsOf = (reply: Json): string[] => (reply["data"] as { id: string }[]).map(({ id }) => id);
const allModels = Object.keys((parse(original) as CatalogSections).models);

describe("GET /v1/models", () => {
  test("the Format A list: id, object, created and owned_by of every model", async () => {
    const { secret } = await world.createCustomer();
    const reply = await list({ authorization: `Bearer ${secret}` });
    assert.equal(reply.status, 200);
    assert.equal(reply.headers.get("content-type"), "application/json");
    const { data, ...rest } = reply.json() as { data: Json[] };
    assert.deepEqual(rest, { object: "list" });
    const told = data.map(({ id, object, created, owned_by: owner }) => ({ id, object, created, owned_by: owner }));
    const wanted = allModels.map((id) => ({ id, object: "model", created: 1_767_225_600, owned_by: "e2e" }));
    assert.deepEqual(told, wanted);
    const [first] = data;
    assert.deepEqual([first?.["context_length"], first?.["max_output_tokens"]], [128_000, 16_384]);
    const endpoints = first?.["endpoints"];
    assert.ok(Array.isArray(endpoints) && endpoints.includes("/v1/messages"));
    const one = await ask(`${relayUrl}/v1/models/${allModels[0]}`, { method: "GET", headers: chat.headers(secret) });
    assert.deepEqual(one.json(), first, "an entry looked up is the one of the list");
  });

  test("API spec, Endpoints: `GET /v1/models`: no body. Returns the Format B list when both the `x-api-key` and `provider-version` headers are present", async () => {
    const { secret } = await world.createCustomer();
    for (const version of ["provider-version", "anthropic-version"]) {
      const reply = await list({ "x-api-key": secret, [version]: "2023-06-01" });
      const byBearer = await list({ authorization: `Bearer ${secret}`, "anthropic-version": "2023-06-01" });
      assert.deepEqual(byBearer.json(), reply.json(), "the newest clients send their key so");
      const { data, ...page } = reply.json() as { data: Json[] };
      assert.deepEqual(page, { has_more: false, first_id: allModels[0], last_id: allModels.at(-1) });
      const [first] = data;
      assert.deepEqual(
        [first?.["type"], first?.["id"], first?.["created_at"]],
        ["model", allModels[0], "2026-01-01T00:00:00Z"],
      );
      assert.equal(typeof first?.["display_name"], "string");
      assert.deepEqual(idsOf(reply.json()), allModels);
    }
  });

  test("API spec, Endpoints: `GET /v1/models`: no body. Otherwise the Format A list, which takes the key from Authorization only", async () => {
    const { secret } = await world.createCustomer();
    const authorization = `Bearer ${secret}`;
    for (const headers of [
      { authorization },
      { authorization, "provider-version": "2023-06-01" },
      { authorization, "provider-version": "soon" },
      { authorization, "x-api-key": "sk-wrong" },
      { authorization, "x-api-key": "sk-wrong", "provider-version": "soon" },
    ]) {
      const reply = await list(headers);
      assert.equal(reply.json()["object"], "list", JSON.stringify(headers));
    }
    checkRefusal(chat, await list({ "x-api-key": secret }), rows.keyInvalid);
    checkRefusal(chat, await list({ "x-api-key": secret, "provider-version": "soon" }), rows.keyInvalid);
  });

  test("a key without the right to anything gets 401, Invalid API key", async () => {
    checkRefusal(chat, await list({}), rows.keyInvalid);
    checkRefusal(chat, await list({ authorization: "Bearer sk-wrong" }), rows.keyInvalid);
    assert.equal((await list({ "x-api-key": "sk-wrong", "provider-version": "2023-06-01" })).status, 401);
  });

  test("only the models that the key can use, as soon as they are changed; what is listed can be called", async () => {
    const customer = await world.createCustomer({ key: { models: ["renamed-model", "not-in-the-catalog"] } });
    const { secret, keyId } = customer;
    const listed = async () => idsOf((await list({ authorization: `Bearer ${secret}` })).json());
    assert.deepEqual(await listed(), ["renamed-model"]);
    const reply = await list(messages.headers(secret));
    assert.deepEqual(idsOf(reply.json()), ["renamed-model"]);
    await world.authQuota.updateKey({ keyId, models: ["test-model", "renamed-model"] });
    assert.deepEqual(await listed(), ["test-model", "renamed-model"]);
    for (const model of await listed()) {
      assert.equal((await makeCall(relayUrl, secret, { side: chat, model })).status, 200);
    }
    await world.authQuota.updateKey({ keyId, clearModels: true });
    assert.deepEqual(await listed(), allModels);
    await world.untilSettled(customer.accountId, 2);
  });

  test("a list costs nothing and needs no money", async () => {
    const customer = await world.createCustomer({ creditNanos: 0n });
    assert.equal((await list({ authorization: `Bearer ${customer.secret}` })).status, 200);
    assert.deepEqual(await world.moneyOf(customer.accountId), {
      balanceNanos: 0n,
      availableNanos: 0n,
      openHolds: 0n,
      unpostedCalls: 0n,
    });
  });
});

describe("the catalog is followed without a restart", () => {
  /** Replaces the catalog and waits until callers see it; `models` are those of the new one. */
  async function replaceCatalog(text: string): Promise<void> {
    const { secret } = await world.createCustomer();
    const models = Object.keys((parse(text) as CatalogSections).models);
    await writeFile(catalogFile, text);
    await until("the new catalog is in force", async () => {
      const { status, json } = await list({ authorization: `Bearer ${secret}` });
      return status === 200 && idsOf(json()).join() === models.join();
    });
  }

  function changed(change: (catalog: CatalogSections) => void): string {
    const catalog = parse(original) as CatalogSections;
    change(catalog);
    return catalogText(catalog);
  }

  test("a new model can be called, a removed one is 503 model_not_found", async () => {
    const customer = await world.createCustomer();
    const text = changed(({ models }) => {
      models["new-model"] = modelOn("fake");
      delete models["renamed-model"];
    });
    await replaceCatalog(text);
    assert.equal((await makeCall(relayUrl, customer.secret, { side: chat, model: "new-model" })).status, 200);
    const gone = await makeCall(relayUrl, customer.secret, { side: chat, model: "renamed-model" });
    checkRefusal(chat, gone, rows.unknownModel("renamed-model"));
    await replaceCatalog(original);
    await world.untilSettled(customer.accountId, 1);
  });

  test("a new price counts for new calls; a running one keeps the price of its reservation", async () => {
    const customer = await world.createCustomer();
    const leaving = new AbortController();
    const behaviour: Behaviour = { fault: { kind: "stall", afterChunks: 1 }, usage: { inputTokens: 1_000 } };
    const running = await fetch(`${relayUrl}${messages.path}`, {
      method: "POST",
      headers: messages.headers(customer.secret),
      body: bodyOf({ side: messages, isStream: true, behaviour }),
      signal: leaving.signal,
    });
    const reader = (running.body as ReadableStream<Uint8Array>).getReader();
    for (let text = ""; !text.includes("word1");) text += Buffer.from((await reader.read()).value ?? []).toString();

    const price = { version: "e2e-2", input_tokens: "1.5", output_tokens: "2.5" };
    const text = changed(({ models }) => {
      models["test-model"] = modelOn("fake", { price });
      models["marker-model"] = modelOn("fake");
    });
    await replaceCatalog(text);
    const usage = { inputTokens: 3, outputTokens: 5 };
    const reply = await makeCall(relayUrl, customer.secret, { side: chat, behaviour: { usage } });
    const newer = await world.billing.listLedgerLines({ accountId: customer.accountId, rid: reply.rid });
    assert.ok(newer.lines.length <= 1);
    leaving.abort();
    const lines = await world.untilSettled(customer.accountId, 2);
    const byRid = new Map(lines.map((line) => [line.rid, line]));
    const [old, fresh] = [byRid.get(ridOf(running)), byRid.get(reply.rid)];
    assert.equal(fresh?.usage?.priceVersion, "e2e-2");
    assert.equal(
      fresh?.amountNanos,
      // 3 × 1,500 + 5 × 2,500 nano-USD a token.
      -17_000n,
    );
    assert.equal(old?.usage?.priceVersion, priceVersion);
    assert.equal(old?.amountNanos, -costOf({ inputTokens: 1_000n, outputTokens: 3n }));
    await replaceCatalog(original);
  });

  const bad: [string, string, RegExp][] = [
    ["broken YAML", `${original.slice(0, -4)}`, /catalog\.yaml:\d+: /],
    [
      "an unknown upstream",
      changed(({ models }) => (models["test-model"] = modelOn("nowhere"))),
      /catalog\.yaml:\d+: there is no upstream nowhere/,
    ],
    [
      "a price of 0",
      changed(
        ({ models }) =>
          (models["test-model"] = modelOn("fake", { price: { version: "x", input_tokens: "0", output_tokens: "1" } })),
      ),
      /catalog\.yaml:\d+: .*a price of 0 is refused/,
    ],
    [
      "an unknown field",
      changed(({ models }) => (models["test-model"] = { ...modelOn("fake"), colour: "red" })),
      /catalog\.yaml:\d+: colour is not a known field/,
    ],
    ["an empty file", "", /catalog\.yaml:\d+: /],
  ];
  for (const [what, text, told] of bad) {
    test(`a malformed catalog is refused with file, line and reason, the last good one stays: ${what}`, async () => {
      const customer = await world.createCustomer();
      const before = world.linesOf("relay").length;
      await writeFile(catalogFile, text);
      const refused = await until("the catalog is refused in the log", () =>
        world
          .linesOf("relay")
          .slice(before)
          .find((line) => line.includes("catalog refused")),
      );
      assert.match(refused ?? "", told);
      const listed = idsOf((await list({ authorization: `Bearer ${customer.secret}` })).json());
      assert.deepEqual(listed, allModels);
      const reply = await makeCall(relayUrl, customer.secret, { side: chat });
      assert.equal(reply.status, 200, reply.text);
      await world.untilBooked(customer.accountId, reply.rid);
    });
  }

  test("after a malformed one, a good one is followed again", async () => {
    await replaceCatalog(changed(({ models }) => (models["newest-model"] = modelOn("fake"))));
    const customer = await world.createCustomer();
    const body = JSON.stringify({
      model: "newest-model",
      messages: [{ role: "user", content: behaviourText({ text: "Here." }) }],
    });
    const reply = await ask(`${relayUrl}${chat.path}`, { headers: chat.headers(customer.secret), body });
    assert.equal(reply.status, 200, reply.text);
    await world.untilBooked(customer.accountId, reply.rid);
  });
});
