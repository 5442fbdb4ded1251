import type * as days from "../../../services/billing/store/days.ts";
import type * as funds from "../../../services/billing/store/funds.ts";
import type * as lines from "../../../services/billing/store/lines.ts";
import type * as post from "../../../services/billing/store/post.ts";
import type * as quarantine from "../../../services/billing/store/quarantine.ts";
import type { ReadEvent, Reject } from "../../../services/billing/records/read-event.ts";
import {
  bookedCalls,
  bookPlan,
  readLedger,
  writeLedger,
  type Account,
  type LedgerLink,
  type Ledger,
} from "./ledger.ts";

// Takes the place of billing's store/ files: the same functions on the books of the simulated world, where their `db`
// or `pool` is a LedgerLink. See stand-ins.ts.

const linkOf = (db: unknown): LedgerLink => db as LedgerLink;

// Nothing is refunded in the simulated world.
const withSpent = (account: Account) => ({ ...account, spentNanos: account.chargedNanos });

const accountsOf = (ledger: Ledger, ids: readonly string[]) =>
  ids.flatMap((id) => {
    const account = ledger.accounts.get(id);
    return account ? [withSpent(account)] : [];
  });

const keysOf = (ledger: Ledger, ids: readonly string[]) =>
  ids.flatMap((id) => {
    const key = ledger.keys.get(id);
    return key ? [{ ...key }] : [];
  });

export const postBatch: typeof post.postBatch = (db, events, decide) =>
  writeLedger(linkOf(db), (ledger) => {
    const plan = bookPlan(ledger, events, decide);
    const newRejects = addToQuarantine(ledger, plan.rejects);
    const accounts = accountsOf(ledger, [...new Set(events.map(({ event }) => event.accountId))]);
    const keys = keysOf(ledger, [...new Set([...plan.calls.values()].map(({ keyId }) => keyId))]);
    return { plan, newRejects, accounts, keys, priceConflicts: [] };
  });

export const readBookedCalls: typeof post.readBookedCalls = (db, events: readonly ReadEvent[]) =>
  readLedger(linkOf(db), (ledger) => bookedCalls(ledger, events));

export const readAccounts: typeof funds.readAccounts = (db, ids) =>
  readLedger(linkOf(db), (ledger) => accountsOf(ledger, ids));

export const readKeys: typeof funds.readKeys = (db, ids) => readLedger(linkOf(db), (ledger) => keysOf(ledger, ids));

// The simulated books do not write down when a key was charged: nothing there asks for it.
export const readKeyFunds: typeof funds.readKeyFunds = (db, ids) =>
  readLedger(linkOf(db), (ledger) => keysOf(ledger, ids).map((key) => ({ ...key, chargedAt: null })));

export const readUnpushedAccounts: typeof funds.readUnpushedAccounts = (db, limit) =>
  readLedger(linkOf(db), ({ accounts }) =>
    [...accounts.values()].filter(({ version, pushedVersion }) => version > pushedVersion).slice(0, limit),
  ).then((rows) => rows.map(withSpent));

export const markPushed: typeof funds.markPushed = async (db, versions) => {
  if (versions.size === 0) return;
  await writeLedger(linkOf(db), ({ accounts }) => {
    for (const [id, version] of versions) {
      const account = accounts.get(id);
      if (account && account.pushedVersion < version) account.pushedVersion = version;
    }
  });
};

export const readUnpushedKeys: typeof funds.readUnpushedKeys = (db, limit) =>
  readLedger(linkOf(db), (ledger) => keysOf(ledger, [...ledger.unpushedKeys.keys()].slice(0, limit)));

export const markKeysUnpushed: typeof funds.markKeysUnpushed = (db, keyIds) =>
  writeLedger(linkOf(db), ({ keys, unpushedKeys }) => {
    for (const keyId of keyIds) unpushedKeys.set(keyId, keys.get(keyId)?.version ?? 0n);
  });

export const markKeysPushed: typeof funds.markKeysPushed = async (db, told) => {
  if (told.length === 0) return;
  await writeLedger(linkOf(db), ({ unpushedKeys }) => {
    for (const { keyId, version } of told)
      if ((unpushedKeys.get(keyId) ?? version) <= version) unpushedKeys.delete(keyId);
  });
};

export const insertQuarantine: typeof quarantine.insertQuarantine = async (db, rejects) => {
  if (rejects.length === 0) return [];
  return await writeLedger(linkOf(db), (ledger) => addToQuarantine(ledger, rejects));
};

export const findQuarantined: typeof quarantine.findQuarantined = async (db, hashes) => {
  if (hashes.length === 0) return new Set();
  return await readLedger(linkOf(db), (ledger) => new Set(hashes.filter((hash) => ledger.quarantine.has(hash))));
};

export const readQuarantine: typeof quarantine.readQuarantine = () => Promise.resolve([]);

export const readByHandSums: typeof lines.readByHandSums = () => Promise.resolve(new Map());

export const createLedgerDays: typeof days.createLedgerDays = () => ({
  ensure: () => Promise.resolve(new Set()),
  forget: () => undefined,
});

export const isDayMissing: typeof days.isDayMissing = () => false;

function addToQuarantine({ quarantine: kept }: Ledger, rejects: readonly Reject[]): Reject[] {
  return rejects.filter((reject) => {
    if (kept.has(reject.hash)) return false;
    kept.set(reject.hash, reject);
    return true;
  });
}
