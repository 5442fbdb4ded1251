import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import type { BookedCall, BookedState, Plan } from "../../../services/billing/records/plan.ts";
import type { ReadEvent, Reject } from "../../../services/billing/records/read-event.ts";
import { ask, type Network } from "./network.ts";

export type Account = {
  accountId: string;
  balanceNanos: bigint;
  creditedNanos: bigint;
  chargedNanos: bigint;
  version: bigint;
  pushedVersion: bigint;
};

export type KeySpending = { keyId: string; accountId: string; spentNanos: bigint; version: bigint };

/** A line; `rid` is empty for credits. */
export type Line = { rid: string; accountId: string; keyId: string; kind: LineKind; amountNanos: bigint };

/** The books of the world: what billing's tables hold. */
export type Ledger = {
  isDown: boolean;
  accounts: Map<string, Account>;
  keys: Map<string, KeySpending>;
  /** Keys that auth-quota was not told of, with the version that it lacks. */
  unpushedKeys: Map<string, bigint>;
  lines: Line[];
  calls: Map<string, BookedCall>;
  quarantine: Map<string, Reject>;
  /** How often a commit ends in an error: before it took effect, or after. */
  failChance: number;
  onCommit: (lines: readonly Line[]) => void;
};

/** The way of one billing process to the books. */
export type LedgerLink = { ledger: Ledger; network: Network; from: string };

export function createLedger(onCommit: Ledger["onCommit"]): Ledger {
  return {
    isDown: false,
    accounts: new Map(),
    keys: new Map(),
    unpushedKeys: new Map(),
    lines: [],
    calls: new Map(),
    quarantine: new Map(),
    failChance: 0,
    onCommit,
  };
}

const timeoutMs = 5_000;

/** Reads as one statement does. */
export function readLedger<T>(link: LedgerLink, read: (ledger: Ledger) => T): Promise<T> {
  const { ledger, network, from } = link;
  return ask<T>({
    network,
    from,
    to: "postgres",
    timeoutMs,
    serve: (reply, fail) => (ledger.isDown ? fail(new Error("ECONNREFUSED")) : reply(read(ledger))),
  });
}

/**
 * One transaction. Its work is done at one instant, as the locks of the accounts make it; whether its end is heard of,
 * and whether an error means that nothing was done, is left to chance.
 */
export function writeLedger<T>(link: LedgerLink, write: (ledger: Ledger) => T): Promise<T> {
  const { ledger, network, from } = link;
  return ask<T>({
    network,
    from,
    to: "postgres",
    timeoutMs,
    serve: (reply, fail) => {
      const isFailing = ledger.failChance > 0 && network.random.chance(ledger.failChance);
      if (ledger.isDown || (isFailing && network.random.chance(0.5))) return fail(new Error("rolled back"));
      try {
        const result = write(ledger);
        if (isFailing) fail(new Error("the connection was lost at the commit"));
        else reply(result);
      } catch (error) {
        fail(error);
      }
    },
  });
}

function accountOf(ledger: Ledger, accountId: string): Account {
  const known = ledger.accounts.get(accountId);
  if (known) return known;
  const account = { accountId, balanceNanos: 0n, creditedNanos: 0n, chargedNanos: 0n, version: 0n, pushedVersion: 0n };
  ledger.accounts.set(accountId, account);
  return account;
}

/** Puts money into an account. */
export function creditAccount(ledger: Ledger, accountId: string, amountNanos: bigint): Account {
  const account = accountOf(ledger, accountId);
  account.balanceNanos += amountNanos;
  account.creditedNanos += amountNanos;
  account.version += 1n;
  ledger.lines.push({ rid: "", accountId, keyId: "", kind: LineKind.CREDIT, amountNanos });
  return { ...account };
}

/** What is booked of calls, as copies. */
export function bookedCalls(ledger: Ledger, events: readonly ReadEvent[]): Map<string, BookedCall> {
  const found = new Map<string, BookedCall>();
  for (const { event } of events) {
    const call = ledger.calls.get(event.rid);
    if (call) found.set(event.rid, { ...call });
  }
  return found;
}

/** Decides and books a batch. */
export function bookPlan(ledger: Ledger, events: readonly ReadEvent[], decide: (booked: BookedState) => Plan): Plan {
  const accounts = new Map(
    events.map(({ event }) => {
      const { balanceNanos, chargedNanos } = accountOf(ledger, event.accountId);
      return [event.accountId, { balanceNanos, chargedNanos }];
    }),
  );
  const plan = decide({ calls: bookedCalls(ledger, events), accounts });
  const lines = plan.lines.map(({ kind, amountNanos, read: { event } }): Line => {
    const { rid, accountId, keyId } = event;
    return { rid, accountId, keyId, kind, amountNanos };
  });
  assertUnique(ledger, lines);
  ledger.lines.push(...lines);
  for (const [rid, call] of plan.calls) ledger.calls.set(rid, { ...call });
  for (const [accountId, chargedNanos] of plan.chargedByAccount) {
    const account = accountOf(ledger, accountId);
    account.balanceNanos -= chargedNanos;
    account.chargedNanos += chargedNanos;
    account.version += 1n;
  }
  for (const [keyId, { accountId, chargedNanos }] of plan.chargedByKey) {
    const key = ledger.keys.get(keyId) ?? { keyId, accountId, spentNanos: 0n, version: 0n };
    ledger.keys.set(keyId, { ...key, spentNanos: key.spentNanos + chargedNanos, version: key.version + 1n });
  }
  ledger.onCommit(lines);
  return plan;
}

function assertUnique(ledger: Ledger, lines: readonly Line[]): void {
  for (const { rid, kind } of lines) {
    const isTaken = ledger.lines.some((line) => line.rid === rid && line.kind === kind);
    if (isTaken) throw new Error("duplicate key value violates unique constraint (rid, kind)");
  }
}
