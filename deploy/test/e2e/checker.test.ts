import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import type { Truth } from "#fake-provider/truth.ts";
import { type CallLog, type Outcome, silenceReason } from "./caller.ts";
import {
  check,
  type CheckedAccount,
  type CheckedLine,
  type Evidence,
  formatReport,
  type LossRule,
  type Report,
} from "./checker.ts";
import type { Prices } from "./load-models.ts";

// 1 nano-USD for a token of input, 10 for one of output.
const prices: Prices = {
  inputTokens: 1_000_000n,
  cacheReadTokens: 100_000n,
  cacheWrite5mTokens: 1_250_000n,
  cacheWrite1hTokens: 2_000_000n,
  outputTokens: 10_000_000n,
  reasoningTokens: 10_000_000n,
};

const claim = { inputTokens: 100, cacheReadTokens: 1, cacheWrite5mTokens: 0, cacheWrite1hTokens: 0, outputTokens: 20 };
// 100 + 0.1 + 200, rounded up once.
const wholeNanos = 301n;
const creditedNanos = 10_000n;

function truthOf(rid: string, changes: Partial<Truth> = {}): Truth {
  const counts = { promptTokens: 1, tokensPlanned: 20, tokensEmitted: 20, claim: { ...claim, reasoningTokens: 0 } };
  const served = { dialect: "chat", model: "model", isStream: true, behaviour: {}, isClaimEmitted: true } as const;
  const end = { ended: "whole", status: 200, startedAt: 0, endedAt: 0 } as const;
  return { run: "run", sequence: 1, rid, ...served, ...counts, ...end, ...changes };
}

const plan: CallLog["plan"] = {
  number: 1,
  accountId: "acct_1",
  secret: "sk-",
  dialect: "chat",
  isStream: true,
  model: "model",
  maxTokens: 100,
  behaviour: {},
  isSound: true,
};

function callOf(rid: string | undefined, outcome: Outcome, reason = ""): CallLog {
  const answer = { status: 200, retryAfter: undefined, words: 0, reason };
  return { plan, rid, outcome, ...answer, startedAtMs: 0, endedAtMs: 0 };
}

type LineChanges = Partial<CheckedLine>;

function lineOf(rid: string, sequence: bigint, amountNanos: bigint, changes: LineChanges = {}): CheckedLine {
  const line = { rid, accountId: "acct_1", kind: LineKind.CHARGE, amountNanos, relaySession: "relay_1", sequence };
  return { ...line, ...changes };
}

// One whole, one refused, one cut in the middle, one lost with its relay, one lost and come back late.
const cut = { ended: "cut", tokensEmitted: 5, isClaimEmitted: false } as const;
const right: Evidence = {
  calls: [
    callOf("whole", "whole"),
    callOf("refused", "error"),
    callOf("cut", "cut"),
    callOf("lost", "cut"),
    callOf("late", "whole"),
    callOf(undefined, "none"),
  ],
  truth: [
    truthOf("whole"),
    truthOf("refused", { ended: "refused", tokensEmitted: 0, isClaimEmitted: false }),
    truthOf("cut", cut),
    truthOf("lost", cut),
    truthOf("late"),
  ],
  lines: [
    lineOf("whole", 0n, -wholeNanos),
    lineOf("refused", 1n, 0n),
    lineOf("cut", 2n, -140n),
    lineOf("lost", 0n, -120n, { kind: LineKind.PROVISIONAL_CHARGE }),
    lineOf("late", 0n, -200n, { kind: LineKind.PROVISIONAL_CHARGE }),
    lineOf("late", 3n, -101n, { kind: LineKind.FINAL_ADJUSTMENT }),
  ],
  accounts: [accountOf(-862n)],
  prices: { model: prices },
  floors: new Map([["lost", 120n]]),
};

function accountOf(chargesNanos: bigint, changes: Partial<CheckedAccount> = {}): CheckedAccount {
  const balanceNanos = creditedNanos + chargesNanos;
  const rest = { openHolds: 0n, unpostedCalls: 0n };
  return { accountId: "acct_1", creditedNanos, balanceNanos, availableNanos: balanceNanos, ...rest, ...changes };
}

/** The right evidence with other lines, and a balance that fits them, so that only what is meant is wrong. */
function withLines(lines: readonly CheckedLine[]): Evidence {
  return { ...right, lines, accounts: [accountOf(lines.reduce((sum, { amountNanos }) => sum + amountNanos, 0n))] };
}

const replaced = (rid: string, amountNanos: bigint): CheckedLine[] =>
  right.lines.map((line) => (line.rid === rid ? { ...line, amountNanos } : line));
const without = (rid: string): CheckedLine[] => right.lines.filter((line) => line.rid !== rid);

type Wrong = { wrong: string; evidence: Evidence; problem: RegExp; counts?: Partial<Report> };

const wrongs: Wrong[] = [
  {
    wrong: "a whole answer without a line",
    evidence: withLines(without("whole")),
    problem: /^whole: must cost at least 301 \(whole, no line/,
    counts: { missing: 1, booked: 1 },
  },
  {
    wrong: "a whole answer charged one nano-dollar too little",
    evidence: withLines(replaced("whole", -300n)),
    problem: /^whole: must cost at least 301 /,
    counts: { missing: 1, booked: 1 },
  },
  {
    wrong: "a whole answer charged by its model's prices, not by those of its version",
    evidence: {
      ...right,
      lines: right.lines.map((line) => ({ ...line, priceVersion: "two" })),
      prices: { ...right.prices, "model@two": { ...prices, outputTokens: prices.outputTokens * 2n } },
    },
    problem: /^whole: must cost at least \d+ /,
    counts: { missing: 2, booked: 0 },
  },
  {
    wrong: "a whole answer that is only charged at its checkpoint",
    evidence: withLines(right.lines.filter(({ kind }) => kind !== LineKind.FINAL_ADJUSTMENT)),
    problem: /^late: must cost at least 301 \(whole, PROVISIONAL_CHARGE/,
    counts: { missing: 1, booked: 1 },
  },
  {
    wrong: "a whole answer charged one nano-dollar too much",
    evidence: withLines(replaced("whole", -302n)),
    problem: /^whole: may cost at most 301 /,
    counts: { overcharged: 1, booked: 1 },
  },
  {
    wrong: "a charge that stands twice",
    evidence: withLines([...right.lines, lineOf("whole", 4n, -wholeNanos)]),
    problem: /^whole: booked more than once/,
    counts: { double: 1, booked: 1 },
  },
  {
    wrong: "a charge beside an adjustment",
    evidence: withLines([...right.lines, lineOf("late", 4n, 0n)]),
    problem: /^late: booked more than once/,
    counts: { double: 1 },
  },
  {
    wrong: "an adjustment without a provisional charge",
    evidence: withLines(right.lines.map((line) => (line.rid === "whole" ? adjusted(line) : line))),
    problem: /^whole: an adjustment of no charge/,
  },
  {
    wrong: "a refused call that costs something",
    evidence: withLines(replaced("refused", -1n)),
    problem: /^refused: may cost at most 0 /,
    counts: { overcharged: 1 },
  },
  {
    wrong: "a cut call that costs more than was emitted",
    evidence: withLines(replaced("cut", -152n)),
    problem: /^cut: may cost at most 151 /,
    counts: { overcharged: 1 },
  },
  {
    wrong: "a lost call that costs less than its checkpoint",
    evidence: withLines(replaced("lost", -119n)),
    problem: /^lost: must cost at least 120 /,
    counts: { missing: 1 },
  },
  {
    wrong: "a charge for a call that nobody made",
    evidence: withLines([...right.lines, lineOf("phantom", 4n, -1n)]),
    problem: /^phantom: may cost at most 0 \(unknown to callers/,
    counts: { overcharged: 1 },
  },
  {
    wrong: "a charge that gives money",
    evidence: withLines(replaced("refused", 5n)),
    problem: /^refused: a charge gives money/,
  },
  {
    wrong: "an event that is missing from a relay's numbers",
    evidence: withLines(without("refused")),
    problem: /^event 1 of relay relay_1 is not in the ledger/,
  },
  {
    wrong: "a balance that is not the sum of its lines",
    evidence: { ...right, accounts: [accountOf(-861n)] },
    problem: /^acct_1: the balance is 9139, its lines sum to 9138/,
  },
  {
    wrong: "money that stays held",
    evidence: { ...right, accounts: [accountOf(-862n, { openHolds: 1n, availableNanos: 9_000n })] },
    problem: /^acct_1: 1 holds are open/,
  },
  {
    wrong: "a charge that stays unconfirmed",
    evidence: { ...right, accounts: [accountOf(-862n, { unpostedCalls: 2n })] },
    problem: /^acct_1: 2 charges are unconfirmed/,
  },
  {
    wrong: "an account that spent more than it had",
    evidence: {
      ...right,
      accounts: [accountOf(-862n, { creditedNanos: 800n, balanceNanos: -62n, availableNanos: -62n })],
    },
    problem: /^acct_1: spent 62 more than it had/,
    counts: { overspentNanos: 62n },
  },
  {
    wrong: "a call that is sent to the upstream twice",
    evidence: { ...right, truth: [...right.truth, truthOf("whole")] },
    problem: /^whole: the upstream was asked 2 times/,
  },
  {
    wrong: "a call that is left without a word",
    evidence: { ...right, calls: [...right.calls, callOf(undefined, "none", silenceReason)] },
    problem: /^call 1 was left without a word/,
  },
];

function adjusted(line: CheckedLine): CheckedLine {
  return { ...line, kind: LineKind.FINAL_ADJUSTMENT };
}

describe("the checker of the kill -9 tests", () => {
  test("finds nothing wrong with books that are right, and counts them", () => {
    const report = check(right);
    assert.deepEqual(report.problems, []);
    assert.equal(
      formatReport(report),
      "calls 6, served 2, booked 2, missing 0, double 0, overcharged 0, overspentNanos 0, broken 2, forgoneNanos 42",
    );
  });

  const lossRule = (boundNanos: bigint, lost: string[] = []): LossRule => ({
    boundNanos: () => boundNanos,
    lostRids: new Set(lost),
    lostRelayRids: new Set(lost.length > 0 ? ["cut"] : []),
  });

  test("lists what was lost with a relay, and complains when that is more than may be", () => {
    // Of 151 that were emitted 120 are charged.
    const { problems, losses } = check({ ...right, lossRule: lossRule(31n) });
    assert.deepEqual([problems, losses], [[], [{ rid: "lost", nanos: 31n, boundNanos: 31n }]]);
    assert.match(check({ ...right, lossRule: lossRule(30n) }).problems.join(), /^lost: lost 31, at most 30 may be/);
  });

  test("a charge that is final because the relay was lost is a loss, too", () => {
    const lost = lineOf("cut", 2n, -140n, { isRelayLost: true });
    const lines = right.lines.map((line) => (line.rid === "cut" ? lost : line));
    assert.deepEqual(
      check({ ...right, lines, lossRule: lossRule(31n) }).losses.map(({ rid, nanos }) => [rid, nanos]),
      [
        ["cut", 11n],
        ["lost", 31n],
      ],
    );
  });

  test("a whole answer may only be lost with the disk of its relay", () => {
    const evidence = withLines(without("whole"));
    assert.match(check({ ...evidence, lossRule: lossRule(1_000n) }).problems.join(), /whole: must cost at least 301/);
    const { problems, missing, served, booked, losses } = check({ ...evidence, lossRule: lossRule(1_000n, ["whole"]) });
    assert.deepEqual([problems, missing, served, booked, losses.length], [[], 0, 2, 1, 2]);
  });

  test("events that are in an earlier report are no hole in this one, later ones are", () => {
    const lines = right.lines.map((line) => ({ ...line, sequence: line.sequence + 7n }));
    assert.deepEqual(check({ ...right, lines, firstNumbers: new Map([["relay_1", 7n]]) }).problems, []);
    const { problems } = check({ ...right, lines, firstNumbers: new Map([["relay_1", 6n]]) });
    assert.deepEqual(problems, ["event 6 of relay relay_1 is not in the ledger"]);
  });

  test("an account may be below zero by the stated bound, and no further", () => {
    const accounts = [accountOf(-862n, { creditedNanos: 800n, balanceNanos: -62n, availableNanos: -62n })];
    const { problems, overspentNanos } = check({ ...right, accounts, overspendBoundNanos: 62n });
    assert.deepEqual([problems, overspentNanos], [[], 62n]);
    assert.equal(check({ ...right, accounts, overspendBoundNanos: 61n }).problems.length, 1);
  });

  for (const { wrong, evidence, problem, counts = {} } of wrongs) {
    test(`turns red for ${wrong}`, () => {
      const report = check(evidence);
      assert.match(report.problems.join("\n"), new RegExp(problem.source, "m"));
      for (const [name, count] of Object.entries(counts)) assert.equal(report[name as keyof Report], count, name);
    });
  }
});
