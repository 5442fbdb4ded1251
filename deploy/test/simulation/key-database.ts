import type { Database } from "../../../services/auth-quota/store/postgres.ts";
import type { Payer } from "./caller.ts";
import { readLedger, type Ledger, type LedgerLink } from "./ledger.ts";

type Answer = (values: unknown[]) => object[];

/** A row of auth_quota.account_shard. */
type Place = { accountId: string; shard: number; movingTo: number | null; number: string };

const places = new WeakMap<Ledger, Map<string, Place>>();

/** Where accounts are that were moved, by account. */
export function movedPlaces(ledger: Ledger): Map<string, Place> {
  const known = places.get(ledger) ?? new Map<string, Place>();
  places.set(ledger, known);
  return known;
}

const generations = new WeakMap<Ledger, Map<number, string>>();

function answersOfMoves(ledger: Ledger, payers: readonly Payer[]): [pattern: RegExp, answer: Answer][] {
  const moved = movedPlaces(ledger);
  return [
    [/from auth_quota\.account_shard order/, () => [...moved.values()].map((place) => ({ ...place }))],
    [/insert into auth_quota\.account_shard/, (values) => [beginMove(moved, values as number[])]],
    [
      /update auth_quota\.account_shard/,
      ([accountId, movingTo, number]) => {
        const place = moved.get(String(accountId));
        if (place?.movingTo !== movingTo || place?.number !== String(number)) return [];
        Object.assign(place, { shard: movingTo, movingTo: null });
        return [];
      },
    ],
    [
      /select key_id as "keyId" from auth_quota\.key where account_id/,
      ([accountId]) => payers.filter((payer) => payer.accountId === accountId).map(({ keyId }) => ({ keyId })),
    ],
  ];
}

/** The tables of auth-quota, on the same PostgreSQL as the books; only the status of a key changes. */
export function createKeyDatabase(link: LedgerLink, payers: readonly Payer[]): Database {
  const createdAt = new Date(0);
  const noBudget = { budgetNanos: null, budgetPeriod: null, budgetFrom: null };
  const answers: [pattern: RegExp, answer: Answer][] = [
    ...answersOfMoves(link.ledger, payers),
    [
      /from auth_quota\.account where account_id = any/,
      ([ids]) =>
        payers
          .filter(({ accountId }) => (ids as string[]).includes(accountId))
          .map(({ accountId, limitOfAccount: limitNanos, mostOfAccount: maxConcurrent, perMinute }) => {
            const limits = { requestsPerMinute: perMinute, maxConcurrent, limitNanos, ...noBudget };
            return { accountId, name: "a", status: "active", ...limits, version: "1", createdAt };
          }),
    ],
    [
      /from auth_quota\.key where key_id = any/,
      ([ids]) =>
        payers
          .filter(({ keyId }) => (ids as string[]).includes(keyId))
          .map(({ keyId, accountId, limitNanos, mostOfKey: maxConcurrent, status }) => {
            const open = { expiresAt: null, models: [], requestsPerMinute: 0, addresses: [], tags: [] };
            const unused = { secretPrefix: "", name: "k", ...open, createdAt };
            return {
              keyId,
              accountId,
              status,
              limitNanos,
              ...noBudget,
              maxConcurrent,
              version: status === "active" ? "1" : "2",
              ...unused,
            };
          }),
    ],
    [
      /where key_hash = any/,
      ([hashes]) =>
        payers.flatMap(({ keyId, accountId, keyHash }) => {
          const hash = Buffer.from(keyHash).toString("base64");
          const asked = (hashes as Buffer[]).map((bytes) => bytes.toString("base64"));
          return asked.includes(hash) ? [{ keyId, accountId, hash }] : [];
        }),
    ],
    [
      /as generation\s+from auth_quota\.hot_store/,
      ([shard]) => [{ generation: generations.get(link.ledger)?.get(Number(shard)) ?? null }],
    ],
    [
      /(insert into|update) auth_quota\.hot_store/,
      ([generation, shard = 0]) => {
        const known = generations.get(link.ledger) ?? new Map<number, string>();
        generations.set(link.ledger, known.set(Number(shard), String(generation)));
        return [];
      },
    ],
  ];
  const query = <Row>(statement: string, values: unknown[]): Promise<Row[]> =>
    readLedger(link, () => {
      const found = answers.find(([pattern]) => pattern.test(statement));
      if (!found) throw new Error(`the simulated database does not know: ${statement}`);
      return found[1](values) as Row[];
    });
  return { query, transaction: (work) => work(query) };
}

function beginMove(moved: Map<string, Place>, [id, shard = 0, movingTo = 0, after = 0]: number[]): Place {
  const accountId = String(id);
  const known = moved.get(accountId);
  const number = String(Math.max(Date.now(), after + 1, Number(known?.number ?? 0) + 1));
  const place = { accountId, shard: known?.shard ?? shard, movingTo, number };
  moved.set(accountId, place);
  return place;
}
