import assert from "node:assert/strict";
import { test } from "node:test";
import { parseCatalog } from "../catalog/catalog.ts";
import { createCandidateCheck } from "./check-candidate.ts";

const catalogOf = (price: string, credential = "{ env: CHECKED_KEY }"): string => `upstreams:
  near: { base_url: https://near.example, dialects: [openai-chat], credential: ${credential} }
models:
  words:
    owned_by: somebody
    upstreams: [{ name: near, cost: { input_tokens: "0.5" } }]
    context_tokens: 1000
    max_output_tokens: 100
    price: { version: "1", input_tokens: "${price}", output_tokens: "2" }
`;
const inForce = parseCatalog(catalogOf("1"), "catalog.yaml", { CHECKED_KEY: "k" });
const check = createCandidateCheck({
  inForce: () => inForce,
  environment: { OTHER_KEY: "k", EMPTY_KEY: "" },
  offersVideos: () => true,
});

test("a catalog that can be loaded is told with models, prices, costs and upstreams, and what is not set", async () => {
  const { problems, unsetVariables, catalog } = await check(catalogOf("1"));
  assert.equal(problems, undefined);
  assert.deepEqual(unsetVariables, ["CHECKED_KEY"]);
  const unsetOf = async (name: string) => (await check(catalogOf("1", `{ env: ${name} }`))).unsetVariables;
  assert.deepEqual([await unsetOf("OTHER_KEY"), await unsetOf("EMPTY_KEY")], [[], ["EMPTY_KEY"]]);
  const [model] = catalog?.models ?? [];
  assert.equal(model?.prices?.[0]?.unitPriceNanos?.inputTokens, 1_000_000_000n);
  assert.equal(model.routes?.[0]?.unitCostNanos?.inputTokens, 500_000_000n);
  assert.deepEqual(catalog?.upstreams?.[0]?.baseUrl, "https://near.example/");
});

test("what is wrong is told with its line, a price that changed under its version too", async () => {
  const wrong = await check(catalogOf("1").replace("dialects", "dialect"));
  assert.deepEqual(
    wrong.problems?.map(({ line }) => line),
    [2, 2],
  );
  const changed = await check(catalogOf("3"));
  assert.match(changed.problems?.[0]?.reason ?? "", /words has other prices than before in version 1/);
  assert.equal(changed.problems?.[0]?.line, 9);
  assert.equal(changed.catalog, undefined);
});

test("files that a catalog names are not read: not even one without an end keeps the check", async () => {
  const { catalog, unsetVariables } = await check(catalogOf("1", "{ file: /dev/zero }"));
  assert.equal(catalog?.models?.length, 1);
  assert.deepEqual(unsetVariables, []);
});

test("one is checked at a time, and none that is too large", async () => {
  const first = check(catalogOf("1"));
  await assert.rejects(check(catalogOf("1")), { code: "unavailable" });
  await first;
  await assert.rejects(check(" ".repeat(1_048_577)), { code: "invalid_argument" });
  assert.ok((await check(catalogOf("1"))).catalog);
});

test("where applied catalogs are followed, what one may not have is told with its line", async () => {
  const restriction = () => ({ fileText: catalogOf("1"), ownVariables: ["NATS_URL"] });
  const restricted = createCandidateCheck({
    inForce: () => inForce,
    environment: { NATS_URL: "nats://user:password@nats" },
    offersVideos: () => true,
    restriction,
  });
  const problemsOf = async (text: string) =>
    (await restricted(text)).problems?.map(({ line, reason }) => `${line}: ${reason}`);
  assert.equal(await problemsOf(catalogOf("1")), undefined);
  const moved = catalogOf("1").replace("near.example", "evil.example");
  assert.deepEqual(await problemsOf(moved), [
    "2: variable CHECKED_KEY goes elsewhere than in the catalog file: base_url, proxy and tls must be as there",
  ]);
  assert.deepEqual(await problemsOf(catalogOf("1", "{ env: NATS_URL }")), [
    "2: variable NATS_URL configures this service itself",
  ]);
});
