import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { failuresBeforeLock } from "../../store/people.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { checkPage } from "../../testing/pages.ts";
import { enrol, join, password, setUp, signIn, type TestPerson } from "../../testing/people.ts";
import { readyState } from "../../testing/relay-neighbour.ts";

const path = "/operator/installation/catalog/versions";
const add = "/operator/installation/catalog/add";
const wrong = `"><script>alert(1)</script>&amp;'`;

let world: World;
let operator: TestPerson;
before(async () => {
  world = await startWorld();
  operator = await setUp(world);
});
after(() => world[Symbol.asyncDispose]());

/** Relays follow applied catalogs and have version `appliedVersion`, whose text is `file`. */
function follow(file: string, appliedVersion: bigint, problem = ""): void {
  const { relays } = world.neighbours;
  relays.file = file;
  relays.state = readyState();
  Object.assign(relays.state.catalog ?? {}, { isStored: true, appliedVersion, problem });
}

const one = "# one\nupstreams: {}\nmodels: {}\n";
const two = "# two\nupstreams: {}\nmodels: {}\n";
const applied = (content: string, note = "why") => ({ content, author: "ann@example.com", note });

beforeEach(() => {
  const { catalogs, relays } = world.neighbours;
  catalogs.applied = [applied(one), applied(two, wrong)];
  catalogs.kept = [one];
  relays.verdict = { catalog: { models: [] } };
  follow(two, 2n);
});

async function open(where: string): Promise<string> {
  const seen = await operator.browser.get(where);
  assert.equal(seen.status, 200);
  checkPage(seen, where);
  return seen.text;
}

const rollBackTo = (version: string, base: string, more: object = {}) =>
  operator.browser.post(path, { applied: version, base, note: "", password, ...more });

test("versions are listed with author and note, as they were typed, and the one in force is marked", async () => {
  const text = await open(path);
  assert.match(text, /Relays follow the version that was applied last/);
  assert.match(text, /<th scope="row">2 ?<span class="badge"[^>]*>in force<\/span>/);
  assert.match(text, /ann@example\.com.*&#60;script&#62;alert/);
  assert.doesNotMatch(text, /<script>alert/);
  assert.match(text, /Taken from files.*relay-1/);
});

test("a version is compared with the one in force, and one click rolls back to it, which the audit log has", async () => {
  const text = await open(`${path}?applied=1`);
  assert.match(text, /-# two.*\+# one|\+# one.*-# two/s);
  assert.match(text, /Roll back to version 1/);
  assert.match(text, /name="base" value="2"/);
  const done = await rollBackTo("1", "2", { note: "too dear" });
  assert.equal(done.status, 303);
  assert.match(await open(path), /Version 3 is applied/);
  const { applied: all } = world.neighbours.catalogs;
  assert.deepEqual(
    [all.length, all[2]?.content, all[2]?.author, all[2]?.note],
    [3, one, operator.email, "back to version 1: too dear"],
  );
  const rows = await world.database.sql(
    `SELECT outcome, email, after FROM console.audit_entry WHERE action = 'catalog.rollback' ORDER BY audit_id`,
  );
  assert.deepEqual(
    rows.map(({ outcome, email }) => [outcome, email]),
    [
      ["asked", operator.email],
      ["done", operator.email],
    ],
  );
  for (const { after: values } of rows) assert.equal(Object(values).provenBy, "password");
});

test("nothing is applied when somebody was faster, a relay would refuse it, or a variable of it is not set", async () => {
  const { catalogs, relays } = world.neighbours;
  const late = await rollBackTo("1", "1");
  assert.equal(late.status, 422);
  assert.match(late.text, /Nothing was applied: version 2 is applied by now/);
  relays.verdict = { problems: [{ line: 1, reason: wrong }] };
  const refused = await rollBackTo("1", "2");
  assert.match(refused.text, /Relays would refuse this catalog/);
  assert.doesNotMatch(refused.text, /<script>alert|Roll back to version/);
  relays.verdict = { unsetVariables: ["GONE_KEY"], catalog: { models: [] } };
  assert.match((await rollBackTo("1", "2")).text, /<code>GONE_KEY<\/code>/);
  for (const odd of [{ base: "" }, { base: "-1" }, { applied: "x" }, { applied: "99" }])
    assert.equal((await rollBackTo("1", "2", odd)).status, 400, JSON.stringify(odd));
  assert.equal(catalogs.applied.length, 2);
});

test("a session alone applies nothing: it takes the password, or a code where a second factor is set up, once", async () => {
  const { catalogs } = world.neighbours;
  for (const wrong of ["", "not the password"]) {
    const refused = await rollBackTo("1", "2", { password: wrong, note: "kept words" });
    assert.equal(refused.status, 422);
    assert.match(refused.text, /This is not your password/);
    assert.match(refused.text, /value="kept words"/);
    checkPage(refused, path);
  }
  const other = await join(world, operator.browser, "", "operator");
  const { code, recovery } = await enrol(world, other.browser);
  const by = async (fields: object) => other.browser.fill(path, { applied: "1", base: "2", note: "", ...fields });
  assert.match((await other.browser.get(`${path}?applied=1`)).text, /Code of your second factor/);
  const notEnough = await by({ password });
  assert.match(notEnough.text, /This code is wrong or was used before/);
  assert.equal(catalogs.applied.length, 2);
  const used = code();
  assert.equal((await by({ code: used })).status, 303);
  assert.equal((await by({ code: used, base: "3" })).status, 422, "a code is taken once");
  assert.equal((await by({ code: recovery[0] ?? "", base: "3" })).status, 303);
  assert.equal(catalogs.applied.length, 4);
  const rows = await world.database.sql(
    `SELECT after->>'provenBy' AS by FROM console.audit_entry WHERE outcome = 'done' AND email = '${other.email}'
     AND action = 'catalog.rollback' ORDER BY audit_id`,
  );
  assert.deepEqual(
    rows.map((row) => row["by"]),
    ["second factor", "recovery code"],
  );
});

test("guesses through a stolen session lock the person, and then the right password applies nothing", async () => {
  const { email, browser } = await join(world, operator.browser, "", "operator");
  const guess = (typed: string) => browser.fill(path, { applied: "1", base: "2", note: "", password: typed });
  for (let number = 0; number < failuresBeforeLock; number += 1) await guess(`guess ${number}`);
  assert.equal((await guess(password)).status, 422);
  assert.equal((await signIn(world, email)).cookies.has("__Host-session"), false);
  assert.equal(world.neighbours.catalogs.applied.length, 2);
});

test("a version that relays refused can be rolled back over, one that they have not looked at yet can not", async () => {
  follow(one, 1n, "version 2:\nbad");
  assert.match(await open(`${path}?applied=2`), /name="base" value="2"/);
  follow(one, 1n);
  assert.match(await open(`${path}?applied=2`), /Relays are taking another version right now/);
});

test("where relays follow a file nothing is applied: the page says so and offers the download", async () => {
  world.neighbours.relays.state = readyState();
  const text = await open(`${path}?kept=1`);
  assert.match(text, /Relays follow a file \(CATALOG_SOURCE/);
  assert.doesNotMatch(text, /Roll back to/);
  const file = await operator.browser.get(`${path}/file?kept=1`);
  assert.equal(file.headers.get("content-disposition"), 'attachment; filename="catalog.yaml"');
  assert.equal((await rollBackTo("1", "2")).status, 409);
  assert.equal(world.neighbours.catalogs.applied.length, 2);
  assert.match(await open(`${path}?applied=77`), /No such version is kept/);
  assert.equal((await operator.browser.get(`${path}/file?applied=77`)).status, 404);
});

test("the form of a new upstream applies what was previewed, with its prices, and nothing else", async () => {
  const { catalogs, relays } = world.neighbours;
  const file = "upstreams:\n  near: { base_url: https://near.example }\nmodels:\n  old: { owned_by: x }\n";
  follow(file, 2n);
  const prices = [{ version: "2026-11-20", unitPriceNanos: { outputTokens: 2n, inputTokens: 1n } }];
  relays.verdict = { catalog: { models: [{ name: "words", prices }] } };
  const fields = {
    name: "far",
    format: "openai-embeddings",
    "base-url": "https://far.example",
    variable: "FAR_KEY",
    "owned-by": "far",
    "model-1": "words",
    "input-1": "0.50",
  };
  const seen = await operator.browser.fill(add, fields);
  const hidden = (name: string): string => new RegExp(`name="${name}" value="(\\w+)"`).exec(seen.text)?.[1] ?? "";
  const sent = { ...fields, previewed: hidden("previewed"), base: hidden("base"), note: "", password };
  const other = await operator.browser.post(`${add}/apply`, { ...sent, "input-1": "0.40" });
  assert.equal(other.status, 422);
  assert.equal(catalogs.applied.length, 2, "another text than the previewed one");
  const unproven = await operator.browser.post(`${add}/apply`, { ...sent, password: "not it" });
  assert.match(unproven.text, /This is not your password/);
  assert.equal(catalogs.applied.length, 2, "a session alone");
  const done = await operator.browser.post(`${add}/apply`, sent);
  assert.equal(done.headers.get("location"), path);
  const last = catalogs.applied.at(-1);
  assert.match(last?.content ?? "", /far:[^]*words:/);
  assert.equal(last?.note, "added far");
  assert.deepEqual(
    last?.prices?.map(({ model, priceVersion, prices: text }) => [model, priceVersion, text]),
    [["words", "2026-11-20", "inputTokens=1,outputTokens=2"]],
  );
});
