import type { Shard, Shards } from "../store/shards.ts";

/**
 * What a relay process has of each shard: the relay is silent there, and hears of no lease that is asked back, while
 * its calls concern other shards only. So it is heard in every one about once a second.
 */
export type Contact = {
  noteRun: (shard: Shard) => void;
  noteRecalled: (shard: Shard, leases: readonly string[]) => void;
  /** Shards that have heard nothing of the relay for a second. */
  unheard: () => Shard[];
  /** Leases that any shard has asked back when it was last heard from. */
  recalledLeases: () => readonly string[];
};

const unheardMs = 1_000;
const forgottenMs = 600_000;
// Whoever names himself anew with each batch must not have all of them looked through each time.
const lookEveryMs = 10_000;

type Contacts = { of: (relaySession: string) => Contact };

/** Contacts by relay process; those of processes that are gone are forgotten when others come. */
export function createContacts({ all }: Pick<Shards, "all">): Contacts {
  const contacts = new Map<string, Contact & { lastMs: () => number }>();
  let lookedMs = performance.now();
  const forget = (nowMs: number): void => {
    lookedMs = nowMs;
    for (const [session, { lastMs }] of contacts) if (nowMs - lastMs() > forgottenMs) contacts.delete(session);
  };
  return {
    of: (relaySession) => {
      const known = contacts.get(relaySession);
      if (known) return known;
      const nowMs = performance.now();
      if (nowMs - lookedMs > lookEveryMs) forget(nowMs);
      const contact = createContact(all);
      contacts.set(relaySession, contact);
      return contact;
    },
  };
}

function createContact(all: Shards["all"]): Contact & { lastMs: () => number } {
  const ranMs = all.map(() => -Infinity);
  const recalled: (readonly string[])[] = all.map(() => []);
  let lastMs = performance.now();
  return {
    lastMs: () => lastMs,
    noteRun: ({ index }) => {
      lastMs = performance.now();
      ranMs[index] = lastMs;
    },
    noteRecalled: ({ index }, leases) => {
      recalled[index] = leases;
    },
    unheard: () => {
      if (all.length === 1) return [];
      const dueMs = performance.now() - unheardMs;
      return all.filter(({ index }) => (ranMs[index] ?? -Infinity) <= dueMs);
    },
    recalledLeases: () => (recalled.length === 1 ? (recalled[0] ?? []) : recalled.flat()),
  };
}
