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
import { createRelayNeighbour, readyState } from "../../testing/relay-neighbour.ts";

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
    for (const address of addresses) assert.match(text, new RegExp(`<th scope="row">${address}</th><td>ready</td>`));
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
    assert.match(text, /<td>not ready: NATS is away<\/td>/);
    assert.match(text, /<td>stopping<\/td>/);
  });

  it("tells of each upstream whether it is used, until when not, and the calls under way, per process", async () => {
    const closedUntil = timestampFromDate(new Date("2026-11-20T09:00:30Z"));
    const [upstream] = relays[1].state.catalog?.upstreams ?? [];
    Object.assign(upstream ?? {}, { circuit: CircuitState.COOLING_DOWN, closedUntil, liveCalls: 7 });
    const [first, second] = addresses;
    const text = await open(path);
    assert.match(text, new RegExp(`<li>${first}: in use</li><li>${second}:<strong>not used</strong>: it asked for`));
    assert.match(text, /2026-11-20 09:00:30<\/time>/);
    assert.match(text, new RegExp(`<li>${first}: 1 of 100</li><li>${second}: 7 of 100</li>`));
    assert.match(text, /<strong>not used<\/strong>: it failed too often, until<time/);
    Object.assign(upstream ?? {}, { circuit: CircuitState.HALF_OPEN });
    assert.match(await open(path), /<strong>on trial<\/strong>: one call tries it/);
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

it("every page about the installation is below Installation in the navigation, and no other is", async () => {
  const current = /<a href="\/operator\/installation" aria-current="page"><svg[^>]*><use[^>]*><\/use><\/svg>Inst/;
  const pages = [path, `${path}/catalog`, "/operator/reports", "/operator/quarantine", "/operator/quarantine/replay"];
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
