import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { create } from "@bufbuild/protobuf";
import { QueryBusinessResponseSchema } from "#proto/billing/v1/billing_pb.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { checkPage } from "../../testing/pages.ts";
import { setUp, type TestPerson } from "../../testing/people.ts";
import { findRefused, findSuspicions } from "./suspicious.ts";
import { BusinessGrouping } from "#proto/billing/v1/billing_pb.ts";

let world: World;
let operator: TestPerson;

before(async () => {
  world = await startWorld();
  operator = await setUp(world);
  world.neighbours.addAccount("acme", "<b>Acme</b>");
});
after(() => world[Symbol.asyncDispose]());

const usd = 1_000_000_000n;
const span = { from: new Date("2026-11-20T00:00:00Z"), until: new Date("2026-11-22T00:00:00Z") };
type Sum = { calls?: bigint; goneCalls?: bigint; freeCalls?: bigint; chargedNanos?: bigint };

const told = (accounts: Record<string, Sum>, groups = Object.keys(accounts).length) =>
  create(QueryBusinessResponseSchema, {
    sums: Object.entries(accounts).map(([group, sum]) => ({ group, ...sum })),
    groups: BigInt(groups),
  });

const found = (now: Record<string, Sum>, earlier = told({})): string[] =>
  findSuspicions(told(now), earlier, span).map(({ accountId, reason }) => `${accountId}: ${reason}`);

it("flags accounts of whose calls half are left, or a quarter cost nothing, and not of a few calls", () => {
  assert.deepEqual(found({ a: { calls: 50n, goneCalls: 25n }, b: { calls: 51n, goneCalls: 25n } }), [
    "a: Callers left 25 of 50 calls before their end (50.0 %).",
  ]);
  assert.deepEqual(found({ a: { calls: 100n, freeCalls: 25n }, b: { calls: 100n, freeCalls: 24n } }), [
    "a: 25 of 100 calls were answered and cost nothing (25.0 %).",
  ]);
  assert.deepEqual(
    found({ a: { calls: 49n, goneCalls: 49n, freeCalls: 49n }, "": { calls: 99n, freeCalls: 99n } }),
    [],
  );
});

it("flags ten times the usual spend of an account that had any, also where that is only known as less than others'", () => {
  const earlier = told({ a: { chargedNanos: 7n * usd }, b: { chargedNanos: 7n * usd + 7n } });
  const ten = { chargedNanos: 10n * usd };
  assert.deepEqual(found({ a: ten, b: ten, fresh: ten }, earlier), [
    "a: $10.00 was charged, 10 times the usual $1.00.",
  ]);
  const cut = told({ a: { chargedNanos: 7n * usd } }, 2);
  assert.deepEqual(found({ other: ten }, cut), ["other: $10.00 was charged, 10 times the usual $1.00."]);
  const little = told({ a: { chargedNanos: 7n } });
  assert.deepEqual(found({ a: { chargedNanos: usd - 1n } }, little), []);
});

it("flags keys that are tried from elsewhere, and floods of refused calls with their most frequent reason", () => {
  const refused = (accountId: string, reason: string, refusals: bigint) => ({ accountId, reason, refusals });
  const flagged = findRefused([
    refused("a", "account_rate", 900n),
    refused("b", "balance", 999n),
    refused("a", "balance", 100n),
    refused("a", "key_address", 10n),
    refused("b", "key_address", 9n),
  ]);
  assert.deepEqual(
    flagged.map(({ accountId, reason }) => `${accountId}: ${reason}`),
    [
      "a: 10 calls came with a key from an address that it does not allow: it may be stolen.",
      "a: 1,000 calls were refused, most of them: Too many calls.",
    ],
  );
});

it("shows them with the reason and the way to the calls", async () => {
  const sums = [{ group: "acme", calls: 60n, goneCalls: 60n, chargedNanos: 0n }];
  world.neighbours.operators.business.set(BusinessGrouping.ACCOUNT, { sums, groups: 1n });
  world.neighbours.refused.set("acme", { counts: [{ reason: "key_address", refusals: 12n }] });
  const seen = await operator.browser.get("/operator/suspicious");
  assert.equal(seen.status, 200);
  checkPage(seen, "suspicious");
  assert.match(seen.text, /<a href="\/operator\/accounts\/acme">(?:&lt;|&#60;)b(?:&gt;|&#62;)Acme/);
  assert.match(seen.text, /Callers left 60 of 60 calls/);
  assert.match(seen.text, /12 calls came with a key from an address/);
  assert.match(seen.text, /href="\/accounts\/acme\/activity\/refused"/);
  assert.match(seen.text, /href="\/accounts\/acme\/activity"/);
  world.neighbours.operators.business.clear();
  world.neighbours.refused.clear();
  assert.match((await operator.browser.get("/operator/suspicious")).text, /Suspicious patterns, [^<]*: none\./);
});
