import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { CircuitState, RelayService } from "#proto/relay/v1/relay_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { serveGrpc, unaryHandlers } from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";
import { refusing } from "#shared/testing/refusing.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { marginWords } from "./installation-catalog.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { checkPage } from "../../testing/pages.ts";
import { setUp, type TestPerson } from "../../testing/people.ts";
import { createRelayNeighbour, defaultModels, readyState } from "../../testing/relay-neighbour.ts";

const wrong = `"><script>alert(1)</script>&amp;'`;
const path = "/operator/installation";

const resources = new AsyncDisposableStack();
const relays = [createRelayNeighbour(), createRelayNeighbour()] as const;
let addresses: string[];
let world: World;
let operator: TestPerson;

before(async () => {
  const log = createLog("test", "silent");
  const listen = async ({ handlers }: (typeof relays)[number]): Promise<string> => {
    const service = unaryHandlers(RelayService, { ...refusing(RelayService), ...handlers }, log);
    const served = await serveGrpc([[RelayService, service]], { host: "127.0.0.1", port: 0, drainMs: 100 });
    return `127.0.0.1:${resources.use(served).port}`;
  };
  addresses = [await listen(relays[0]), await listen(relays[1])];
  world = resources.use(await startWorld({ RELAY_ADDRESSES: addresses.join(",") }));
  operator = await setUp(world);
});
after(() => resources.disposeAsync());
beforeEach(() => {
  for (const relay of relays) relay.state = readyState();
});

async function open(where: string, browser = operator.browser) {
  const seen = await browser.get(where);
  assert.equal(seen.status, 200);
  checkPage(seen, where);
  return seen.text;
}

describe("the state of the installation", () => {
  it("names every relay process, and says when all are ready and alike", async () => {
    const text = await open(path);
    for (const address of addresses) {
      assert.match(text, new RegExp(`<th scope="row">${address}</th><td><span[^>]*>ready</span></td>`));
    }
    assert.match(text, /All of the relay processes answer \(2\), are ready and have the same catalog/);
    assert.match(text, /<code>c0ffeec0ffee<\/code>/);
    assert.doesNotMatch(text, /class="problems"/);
  });

  it("warns when catalogs differ, a process is not ready or stops, or a catalog was refused", async () => {
    const [first, second] = relays;
    first.state = { ...readyState(), notReady: ["NATS is away"] };
    second.state = { ...readyState(), isDraining: true };
    Object.assign(second.state.catalog ?? {}, { contentHash: "b".repeat(64), problem: "models: must not be empty" });
    const text = await open(path);
    assert.match(text, /1 of 2 relay processes is not ready for calls/);
    assert.match(text, /do not all have the same catalog/);
    assert.match(text, /A catalog file was refused/);
    assert.match(text, /<td><span[^>]*>not ready<\/span>NATS is away<\/td>/);
    assert.match(text, /<td><span[^>]*>stopping<\/span><\/td>/);
  });

  it("tells of each upstream whether it is used, until when not, and the calls under way, per process", async () => {
    const closedUntil = timestampFromDate(new Date("2026-11-20T09:00:30Z"));
    const [upstream] = relays[1].state.catalog?.upstreams ?? [];
    Object.assign(upstream ?? {}, { circuit: CircuitState.COOLING_DOWN, closedUntil, liveCalls: 7 });
    const [first, second] = addresses;
    const text = await open(path);
    assert.match(
      text,
      new RegExp(`<li>${first}:<span[^>]*>in use</span></li><li>${second}:<span[^>]*>not used</span>it asked for`),
    );
    assert.match(text, /2026-11-20 09:00:30<\/time>/);
    assert.match(text, new RegExp(`<li>${first}: 1 of 100</li><li>${second}: 7 of 100</li>`));
    assert.match(text, /<span[^>]*>not used<\/span>it failed too often, until<time/);
    Object.assign(upstream ?? {}, { circuit: CircuitState.HALF_OPEN });
    assert.match(await open(path), /<span[^>]*>on trial<\/span>one call tries it/);
  });

  it("is shown, too, when a relay or auth-quota does not answer: the page is for that", async () => {
    const dead = `127.0.0.1:${await freePort()}`;
    const app = await world.startReplica({ RELAY_ADDRESSES: `${addresses[0]},${dead}` });
    const browser = world.browser(app);
    for (const [name, value] of operator.browser.cookies) browser.cookies.set(name, value);
    world.neighbours.failure = new ServiceError("unavailable", "down");
    const text = await open(path, browser);
    world.neighbours.failure = undefined;
    assert.match(text, /1 of 2 relay processes does not answer/);
    assert.match(text, new RegExp(`<th scope="row">${dead}</th><td>does not answer: `));
    assert.match(text, /The auth-quota service does not answer/);
    assert.match(await open(`${path}/catalog`, browser), /chat-large/);
  });

  it("follows by itself, by a part that is no page", async () => {
    const follows = /<div hx-get="([^"]+)" hx-trigger="every 5s" hx-swap="innerMorph">/;
    const seen = await operator.browser.get(follows.exec(await open(path))?.[1] ?? "");
    const always =
      /^<p>As of(?:(?!<\/p>).)*<\/p><div><(?:p|div class="problems")>.*<\/(?:p|div)><\/div><div class="scroll"/;
    assert.match(seen.text, always);
    assert.doesNotMatch(seen.text, /<html|<h1|hx-get/);
    relays[0].state = { ...readyState(), notReady: ["NATS is away"] };
    assert.match((await operator.browser.get(`${path}/state`)).text, always, "the same deps, so that focus stays");
  });
});

describe("the catalog", () => {
  it("is shown as loaded, with prices, routes, costs and margins", async () => {
    const text = await open(`${path}/catalog`);
    assert.match(text, /SHA-256 of the file:<code>(c0ffee){10}<\/code>/);
    assert.match(text, /passed: it is in force/);
    assert.match(text, /<th scope="row">chat-large<\/th>/);
    assert.match(text, /chat-large@2026-11-01\/2, more than 200,000 input tokens/);
    assert.match(text, /first-upstream: hidden-model, priority 1, weight 1/);
    assert.match(text, /Input tokens: 1\.111 USD, margin 55\.5 %/);
    assert.match(text, /no costs in the catalog/);
    assert.doesNotMatch(await open(`${path}/catalog?name=EMBED`), /chat-large</);
  });

  it("is the one of the process that was chosen, and its file may have been refused", async () => {
    const other = { contentHash: "b".repeat(64), problem: "models: must not be empty", isMaintenance: true };
    Object.assign(relays[1].state.catalog ?? {}, other, { models: [{ name: "only-there" }] });
    const text = await open(`${path}/catalog?hash=${other.contentHash}`);
    assert.match(text, /<strong>refused<\/strong>: models: must not be empty/);
    assert.match(text, /do not all have the same catalog/);
    assert.match(text, /only-there/);
    assert.doesNotMatch(text, /chat-large</);
    assert.doesNotMatch(await open(`${path}/catalog?hash=none`), /only-there/);
  });

  it("margins are rounded towards zero, and a price below the cost is named", () => {
    const words = [
      [3n, 1n],
      [10n, 10n],
      [10n, 11n],
      [0n, 5n],
      [0n, 0n],
    ] as const;
    assert.deepEqual(
      words.map(([price, cost]) => marginWords(price, cost)),
      [", margin 66.6 %", ", margin 0.0 %", ", below cost, margin -10.0 %", ", not charged", ""],
    );
  });
});

describe("adding an upstream", () => {
  const add = `${path}/catalog/add`;
  const fields = {
    name: "far",
    format: "anthropic-messages",
    "base-url": "https://far.example",
    variable: "FAR_KEY",
    "owned-by": "far",
    "model-1": "words",
    "input-1": "0.50",
    "output-1": "2",
    "cost-input-1": "0.20",
    "cost-output-1": "1",
    "context-1": "1000",
    "max-output-1": "100",
  };
  const wordsModel = {
    name: "words",
    prices: [{ version: "2026-11-20", unitPriceNanos: { inputTokens: 500_000_000n, outputTokens: 2_000_000_000n } }],
    routes: [{ upstream: "far", unitCostNanos: { inputTokens: 200_000_000n } }],
  };
  const previewedIn = ({ text }: { text: string }): string => /name="previewed" value="(\w+)"/.exec(text)?.[1] ?? "";
  const audited = (action: string) =>
    world.database.sql(`SELECT outcome, target, after FROM console.audit_entry
      WHERE action = '${action}' ORDER BY audit_id`);

  it("is previewed as the new lines, prices and margins, then comes as the file in force with them", async () => {
    const [relay] = relays;
    relay.verdict = { unsetVariables: ["FAR_KEY"], catalog: { models: [wordsModel, ...defaultModels] } };
    assert.match(await open(`${path}/catalog`), new RegExp(`<a class="button" href="${add}">Add an upstream</a>`));
    assert.doesNotMatch(await open(add), /Download/);
    const seen = await operator.browser.fill(add, fields);
    checkPage(seen, add);
    assert.match(seen.text, /The file is valid\..*Set these variables.*<code>FAR_KEY<\/code>/);
    assert.match(
      seen.text,
      /words<\/th><td>Input tokens<\/td><td>new<\/td><td>0\.50 USD<\/td>.*far: 0\.20 USD, margin 60\.0 %/,
    );
    assert.match(seen.text, /<td>2\.00 USD<\/td>.*far: no cost in the catalog/);
    assert.doesNotMatch(seen.text, /chat-large<\/th>/, "its prices stay");
    assert.match(seen.text, /@@ line 7 @@.*\+ far: \+ base_url: https:\/\/far\.example/);
    const response = await operator.browser.post(`${add}/file`, { ...fields, previewed: previewedIn(seen) });
    assert.equal(response.headers.get("content-disposition"), 'attachment; filename="catalog.yaml"');
    const file = relay.checked.at(-1) ?? "";
    assert.equal(response.text.replaceAll(/\s/g, ""), file.replaceAll(/\s/g, ""));
    assert.match(
      file,
      /^# Kept by operations\.\n[^]*# agreed in May\n {2}words:\n[^]*input_tokens: "0\.50"[^]*# The end\.\n$/,
    );
    const [entry] = await audited("catalog.draft");
    assert.deepEqual(entry, { outcome: "done", target: "far", after: { contentHash: previewedIn(seen) } });
  });

  it("is not given as a file that relays would refuse, nor as another one than was previewed", async () => {
    const [relay] = relays;
    const seen = await operator.browser.fill(add, fields);
    relay.file = relay.file.replace("# The end.", "# The very end.");
    const changed = await operator.browser.post(`${add}/file`, { ...fields, previewed: previewedIn(seen) });
    assert.match(changed.text, /Download the file/);
    assert.equal(changed.headers.get("content-disposition"), null);
    relay.verdict = { problems: [{ line: 8, reason: wrong }] };
    const refused = await operator.browser.post(`${add}/file`, { ...fields, previewed: previewedIn(changed) });
    assert.match(refused.text, /Relays would refuse this file.*Line 8: &#34;&#62;&#60;script&#62;.*base_url: https/);
    assert.doesNotMatch(refused.text, /Download the file|<script>alert/);
    relay.verdict = {};
  });

  it("says what is wrong at each field, without asking a relay, and shows markup as it was typed", async () => {
    const checks = relays[0].checked.length;
    const odd = {
      ...fields,
      name: wrong,
      "base-url": "ftp://far",
      variable: "sk-12",
      "input-1": "1e3",
      "output-1": "",
    };
    const seen = await operator.browser.fill(add, odd);
    assert.equal(seen.status, 422);
    checkPage(seen, add);
    for (const field of ["base-url", "variable", "input-1", "output-1"]) {
      assert.match(seen.text, new RegExp(`id="${field}-error"`), field);
    }
    assert.doesNotMatch(seen.text, /<script>alert/);
    assert.equal(relays[0].checked.length, checks);
    const halfCost = await operator.browser.fill(add, { ...fields, "cost-output-1": "" });
    assert.match(halfCost.text, /id="cost-output-1-error"/);
    const taken = await operator.browser.fill(add, { ...fields, name: "first-upstream" });
    assert.match(taken.text, /first-upstream is already among the upstreams/);
    const none = await operator.browser.fill(add, { ...fields, "model-2": "words" });
    assert.match(none.text, /Give each model a name of its own/);
  });

  it("is tested by one call after a question, and the outcome is in the audit log", async () => {
    const names = "?upstream=first-upstream&model=chat-large";
    assert.match(await open(`${path}/catalog`), /Test<span class="hidden"> ?chat-large at first-upstream<\/span>/);
    assert.match(await open(`${path}/catalog/test${names}`), /The provider charges you for it/);
    assert.deepEqual(relays[0].tested, []);
    relays[0].result = { status: 401, durationMs: 1_412n, problem: wrong, dialect: "openai-chat" };
    const seen = await operator.browser.post(`${path}/catalog/test${names}`);
    checkPage(seen, "test");
    assert.match(seen.text, /failed.*&#60;script&#62;.*<dd>401<\/dd>.*<dd>1,412 ms<\/dd>/);
    relays[0].result = { status: 200, modelServed: "hidden-model", usage: { inputTokens: 9n, outputTokens: 2n } };
    const fine = await operator.browser.post(`${path}/catalog/test${names}`);
    assert.match(fine.text, /works.*hidden-model.*9 input tokens, 2 output tokens/);
    assert.deepEqual(relays[0].tested, ["chat-large at first-upstream", "chat-large at first-upstream"]);
    assert.deepEqual(
      (await audited("upstream.test")).map(({ outcome, after: later }) => [outcome, later]),
      [
        ["asked", null],
        ["done", { status: 401, problem: wrong }],
        ["asked", null],
        ["done", { status: 200, problem: "" }],
      ],
    );
    assert.equal((await operator.browser.get(`${path}/catalog/test`)).status, 404);
  });
});

it("every page about the installation is below Installation in the navigation, and no other is", async () => {
  const current = /<a href="\/operator\/installation" aria-current="page"><svg[^>]*><use[^>]*><\/use><\/svg>Inst/;
  const pages = [
    path,
    `${path}/catalog`,
    `${path}/catalog/add`,
    "/operator/reports",
    "/operator/quarantine",
    "/operator/quarantine/replay",
  ];
  for (const where of [...pages, "/operator/maintenance", "/operator/maintenance/begin"]) {
    assert.match(await open(where), current, where);
  }
  assert.doesNotMatch(await open("/operator/accounts"), current);
});

it("names with markup in them are shown as they were typed, on both pages", async () => {
  const models = [{ name: wrong, prices: [{ version: wrong, condition: wrong }], endpoints: [wrong] }];
  for (const relay of relays) {
    relay.state = { ...readyState(models), notReady: [wrong] };
    Object.assign(relay.state.catalog ?? {}, { problem: wrong });
    for (const upstream of relay.state.catalog?.upstreams ?? [])
      Object.assign(upstream, { name: wrong, baseUrl: wrong });
  }
  for (const where of [path, `${path}/state`, `${path}/catalog`, `${path}/catalog?name=${encodeURIComponent(wrong)}`]) {
    const { text } = await operator.browser.get(where);
    assert.doesNotMatch(text, /<script>|&amp;/, where);
    assert.match(text, /&#60;script&#62;alert\(1\)&#60;\/script&#62;&#38;amp;/, where);
  }
});
