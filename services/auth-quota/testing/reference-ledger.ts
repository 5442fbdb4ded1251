/**
 * The ledger in the plainest way: books each (rid, kind) once, a final after a provisional adds the difference only, a
 * provisional after a final nothing. Each booking yields what billing would tell.
 */
export type LedgerUpdate = {
  rid: string;
  account: string;
  key: string;
  booked: number;
  isFinal: boolean;
  balance: { nanos: number; version: number };
  /** Of the account, by the version of its balance. */
  accountSpent: number;
  spending: { nanos: number; version: number };
};

type Booked = { account: string; amount: number; hasFinal: boolean; hasProvisional: boolean };
type Sum = { nanos: number; version: number };
type Charge = { rid: string; account: string; key: string; cost: number; isFinal: boolean };

export type Ledger = {
  calls: Map<string, Booked>;
  balances: Map<string, Sum>;
  spending: Map<string, Sum>;
  spentByAccount: Map<string, number>;
};

export const createLedger = (): Ledger => ({
  calls: new Map(),
  balances: new Map(),
  spending: new Map(),
  spentByAccount: new Map(),
});

export const spentBy = (ledger: Ledger, account: string): number => ledger.spentByAccount.get(account) ?? 0;

function add(sums: Map<string, Sum>, id: string, nanos: number): Sum {
  const { nanos: before, version } = sums.get(id) ?? { nanos: 0, version: 0 };
  const after = { nanos: before + nanos, version: version + 1 };
  sums.set(id, after);
  return after;
}

export function credit(ledger: Ledger, account: string, nanos: number): Sum {
  return add(ledger.balances, account, nanos);
}

export function book(ledger: Ledger, { rid, account, key, cost, isFinal }: Charge): LedgerUpdate {
  const call = ledger.calls.get(rid) ?? { account, amount: 0, hasFinal: false, hasProvisional: false };
  const isNew = isFinal ? !call.hasFinal : !call.hasFinal && !call.hasProvisional;
  const more = isNew ? Math.max(0, cost - call.amount) : 0;
  call.amount += more;
  if (isFinal) call.hasFinal = true;
  else call.hasProvisional = true;
  ledger.calls.set(rid, call);
  ledger.spentByAccount.set(account, spentBy(ledger, account) + more);
  return {
    rid,
    account,
    key,
    booked: call.amount,
    isFinal: call.hasFinal,
    balance: add(ledger.balances, account, -more),
    accountSpent: spentBy(ledger, account),
    spending: add(ledger.spending, key, more),
  };
}
