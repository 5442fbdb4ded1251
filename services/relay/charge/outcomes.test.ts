import type { RequestFacts } from "../live-call.ts";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { EndCause, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import type { Units } from "#shared/money/pricing.ts";
import { emptyTally, type Tally } from "../dialects/dialect.ts";
import { meterCall } from "./meter.ts";
import {
  causeOnBill,
  endingOf,
  isFor,
  outcomes,
  sourceOf,
  type AnswerState,
  type Ending,
  type Outcome,
} from "./outcomes.ts";

const readme = readFileSync(join(import.meta.dirname, "../README.md"), "utf8");

/** Cells of the first table under a heading, without its head. */
function tableUnder(heading: string): string[][] {
  const section = readme.split(`\n## ${heading}\n`)[1]?.split("\n## ", 1)[0] ?? assert.fail(`no section ${heading}`);
  const lines = section.split("\n").filter((line) => line.startsWith("|"));
  return lines.slice(2).map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

const sourceNames = new Map<unknown, string>(
  Object.entries(UsageSource).map(([name, source]) => [source, `\`${name.toLowerCase()}\``]),
);
const sourceName = ({ source }: Outcome): string => sourceNames.get(source) ?? "as if cut";

test("the README quotes the table of outcomes row by row", () => {
  assert.deepEqual(
    tableUnder("What a broken answer costs"),
    outcomes.map((row) => [row.howItEnded, row.charged, sourceName(row)]),
  );
});

const states: fc.Arbitrary<AnswerState> = fc.record({
  ending: fc.constantFrom<Ending>("whole", "cut", "left", "relay lost"),
  hasContent: fc.boolean(),
  hasCounts: fc.boolean(),
  hasInputCount: fc.boolean(),
});

test("exactly one row fits any state", () => {
  fc.assert(
    fc.property(states, (state) => {
      const fitting = outcomes.filter((row) => isFor(row, state));
      assert.equal(fitting.length, 1, `${JSON.stringify(state)} is told by ${fitting.length} rows`);
    }),
  );
});

const prices: Units = { inputTokens: 1n, cacheReadTokens: 1n, outputTokens: 1n };
const requested: RequestFacts = { inputTokens: 100, units: {}, priceFields: {} };
const counts: Units = { inputTokens: 20n, cacheReadTokens: 5n, outputTokens: 7n };
const inputCount: Units = { inputTokens: 30n, outputTokens: 0n };

/** An answer in this state, of which 10.25 tokens were seen if any. */
function tallyIn({ hasContent, hasCounts, hasInputCount }: AnswerState): Tally {
  return {
    ...emptyTally(),
    hasContent,
    contentTokens: hasContent ? 10.25 : 0,
    usage: hasCounts ? counts : undefined,
    inputUsage: hasInputCount ? inputCount : undefined,
  };
}

const causes = Object.values(EndCause).filter((cause) => cause !== EndCause.UNSPECIFIED);

/** What each source charges in an answer of tallyIn. */
const charges: Record<string, Units> = {
  [UsageSource.NONE]: {},
  [UsageSource.PROVIDER]: counts,
  [UsageSource.PROVIDER_INPUT]: { inputTokens: 30n, outputTokens: 11n },
  [UsageSource.ESTIMATED]: { inputTokens: 100n, outputTokens: 11n },
};

const chargesWithoutContent: Record<string, Units> = {
  ...charges,
  [UsageSource.PROVIDER_INPUT]: { inputTokens: 30n, outputTokens: 0n },
  [UsageSource.ESTIMATED]: { inputTokens: 100n, outputTokens: 0n },
};

const both = [false, true];
const everyState = both.flatMap((hasContent) =>
  both.flatMap((hasCounts) => both.map((hasInputCount) => ({ hasContent, hasCounts, hasInputCount }))),
);

for (const row of outcomes) {
  test(`${row.howItEnded} | ${row.charged}`, () => {
    const fitting = causes.flatMap((cause) =>
      both.flatMap((isOrphan) =>
        everyState
          .map((known) => ({ ...known, ending: endingOf(cause, isOrphan) }))
          .filter((state) => isFor(row, state)),
      ),
    );
    assert.ok(fitting.length > 0, "no answer ends like this");
    for (const state of fitting) {
      const source = row.source === "as cut" ? sourceOf({ ...state, ending: "cut" }) : row.source;
      const metered = meterCall(tallyIn(state), state.ending, requested, prices);
      const charged = state.hasContent ? charges[source] : chargesWithoutContent[source];
      assert.deepEqual([metered.source, metered.usage], [source, charged], JSON.stringify(state));
    }
  });
}

test("the table says what callers were promised before it was one: a cut answer costs what was seen, a lost one no more", () => {
  const cut: AnswerState = { ending: "cut", hasContent: true, hasCounts: false, hasInputCount: false };
  assert.equal(sourceOf(cut), UsageSource.ESTIMATED);
  assert.equal(sourceOf({ ...cut, hasInputCount: true }), UsageSource.PROVIDER_INPUT);
  assert.equal(sourceOf({ ...cut, hasCounts: true }), UsageSource.PROVIDER);
  assert.equal(sourceOf({ ...cut, ending: "relay lost" }), UsageSource.ESTIMATED);
  assert.equal(sourceOf({ ...cut, ending: "whole" }), UsageSource.ESTIMATED);
  assert.equal(sourceOf({ ...cut, hasContent: false, hasCounts: true }), UsageSource.NONE);
  assert.equal(sourceOf({ ...cut, ending: "whole", hasContent: false }), UsageSource.NONE);
  assert.equal(sourceOf({ ...cut, ending: "whole", hasContent: false, hasCounts: true }), UsageSource.PROVIDER);
});

test("counts in units that the model has no prices for are no counts", () => {
  const tally = { ...tallyIn({ ending: "cut", hasContent: true, hasCounts: false, hasInputCount: false }) };
  tally.usage = { mediaMs: 9n };
  const metered = meterCall(tally, "cut", requested, prices);
  assert.deepEqual([metered.source, metered.usage], [UsageSource.ESTIMATED, charges[UsageSource.ESTIMATED]]);
  assert.equal(metered.measured.mediaMs, 9n, "yet they are known, for what they cost the operator");
});

test("a caller who leaves owes the input once an upstream has it, and nothing for what the upstream then fails at", () => {
  const { CLIENT_GONE, DRAINED, HOLD_EXHAUSTED, RELAY_LOST, UPSTREAM_CUT, UPSTREAM_ERROR, UPSTREAM_TIMEOUT } = EndCause;
  const nothing = { hasContent: false, hasCounts: false, hasInputCount: false };
  for (const cause of [CLIENT_GONE, DRAINED, HOLD_EXHAUSTED, RELAY_LOST]) {
    assert.equal(sourceOf({ ...nothing, ending: endingOf(cause, true) }), UsageSource.ESTIMATED);
    assert.equal(sourceOf({ ...nothing, ending: endingOf(cause, false) }), UsageSource.NONE);
  }
  for (const cause of [UPSTREAM_CUT, UPSTREAM_ERROR, UPSTREAM_TIMEOUT]) {
    assert.equal(sourceOf({ ...nothing, ending: endingOf(cause, true) }), UsageSource.NONE);
    assert.equal(causeOnBill(cause, true), cause);
  }
  for (const cause of [CLIENT_GONE, DRAINED, HOLD_EXHAUSTED, EndCause.COMPLETE]) {
    assert.deepEqual([causeOnBill(cause, true), causeOnBill(cause, false)], [CLIENT_GONE, cause]);
  }
  assert.equal(endingOf(EndCause.COMPLETE, true), "whole", "read to its end, it costs what it would have cost anyway");
});

test("what the request alone settles is charged to a caller who leaves before anything is known", () => {
  const images: RequestFacts = { ...requested, units: { images: 3n } };
  const metered = meterCall(emptyTally(), "left", images, { images: 7_000_000n });
  assert.deepEqual([metered.source, metered.usage], [UsageSource.ESTIMATED, { images: 3n }]);
});
