import assert from "node:assert/strict";
import { test } from "node:test";
import { renderSummary, summarizeProfile } from "./profile-summary.ts";

const root = "file:///repo/";
const node = (id: number, functionName: string, path: string, children: number[] = []) => ({
  id,
  children,
  hitCount: 0,
  callFrame: { functionName, url: path === "" ? "" : `${root}${path}`, scriptId: "1", lineNumber: 9, columnNumber: 0 },
});

// pump calls read, which calls itself and a package; the collector and idleness stand beside.
const nodes = [
  node(1, "(root)", "", [2, 6, 7]),
  node(2, "pump", "services/relay/stream/pump.ts", [3]),
  node(3, "read", "services/relay/http/read.ts", [4, 5]),
  node(4, "read", "services/relay/http/read.ts"),
  node(5, "", "node_modules/undici/lib/parser.js"),
  node(6, "(garbage collector)", ""),
  node(7, "(idle)", ""),
];

// What is sampled lasts until the next sample.
const profileOf = (spans: [id: number, ms: number][]) => ({
  nodes,
  startTime: 5_000,
  endTime: 0,
  samples: [...spans.map(([id]) => id), 7],
  timeDeltas: [0, ...spans.map(([, ms]) => ms * 1_000)],
});

const how = { root, skipMs: 10, most: 3 };
const pump = "pump services/relay/stream/pump.ts:10";
const read = "read services/relay/http/read.ts:10";
const parser = "(anonymous) undici/lib/parser.js:10";

test("a profile tells where its busy time went after what is skipped, once for a function that calls itself", () => {
  const skipped: [number, number] = [2, 10];
  const profile = profileOf([skipped, [2, 1], [3, 2], [4, 2], [5, 4], [6, 1], [7, 90]]);
  const { busyMs, self, inclusive } = summarizeProfile(profile, how);
  assert.equal(busyMs, 10);
  const told = (hot: typeof self) => hot.map(({ name, percent, callers }) => [name, percent, callers]);
  assert.deepEqual(told(self), [
    [read, 40, [pump]],
    [parser, 40, [read, pump]],
    [pump, 10, []],
  ]);
  assert.deepEqual(told(inclusive), [
    [pump, 90, []],
    [read, 80, [pump]],
  ]);
});

test("the table names the busy time, shares and callers; a profile in which nothing happened has no rows", () => {
  const table = renderSummary(
    "relay",
    summarizeProfile(
      profileOf([
        [1, 10],
        [5, 2_000],
      ]),
      how,
    ),
  );
  assert.match(table, /^\| relay, 2\.00 s busy/);
  assert.ok(table.includes(`itself: ${parser}`) && table.includes(`100 | ${read} ← ${pump} |`), table);
  const idle = renderSummary("relay", summarizeProfile(profileOf([[7, 50]]), how));
  assert.equal(idle.split("\n").length, 2);
});
