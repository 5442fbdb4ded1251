import type { Database } from "./postgres.ts";

export type RefusalCountRow = { keyId: string; minute: Date; reason: string; status: number; refusals: bigint };

export type RefusedCallRow = {
  keyId: string;
  rid: string;
  reason: string;
  status: number;
  endpoint: string;
  model: string;
  detail: string;
};

const keptCallsOfKey = 100;
const keptDays = 7;
const maxCounts = 200;
const maxCalls = 100;

// A relay only knows that a key does not work. Of a key that looks well by now, its limit was used up.
const reasonNow = `case when reported.reason <> 'key_invalid' then reported.reason
  when account.status = 'suspended' then 'account_suspended'
  when key.status <> 'active' then 'key_' || key.status
  when key.expires_at <= now() then 'key_expired' else 'key_used_up' end`;
const ofKnownKeys = `join auth_quota.key using (key_id) join auth_quota.account using (account_id)`;

/** Adds to the counts of keys; of keys that do not exist nothing is kept. */
export async function addRefusalCounts(database: Database, counts: readonly RefusalCountRow[]): Promise<void> {
  const statement = `insert into auth_quota.refusal_count as kept (key_id, minute, reason, status, refusals)
    select key_id, date_trunc('minute', minute), ${reasonNow}, reported.status, sum(refusals)
    from unnest($1::text[], $2::timestamptz[], $3::text[], $4::integer[], $5::bigint[])
      as reported (key_id, minute, reason, status, refusals) ${ofKnownKeys}
    group by 1, 2, 3, 4 order by 1, 2, 3, 4
    on conflict (key_id, minute, reason, status) do update set refusals = kept.refusals + excluded.refusals`;
  await database.query(statement, [
    counts.map(({ keyId }) => keyId),
    counts.map(({ minute }) => minute),
    counts.map(({ reason }) => reason),
    counts.map(({ status }) => status),
    counts.map(({ refusals }) => refusals),
  ]);
}

/** Keeps these calls, and of each of their keys the newest hundred. */
export async function keepRefusedCalls(database: Database, calls: readonly RefusedCallRow[]): Promise<void> {
  const statement = `insert into auth_quota.refused_call (key_id, rid, reason, status, endpoint, model, detail)
    select key_id, rid, ${reasonNow}, reported.status, endpoint, model, detail
    from unnest($1::text[], $2::uuid[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::text[])
      as reported (key_id, rid, reason, status, endpoint, model, detail) ${ofKnownKeys}
    order by 1, 2 on conflict do nothing`;
  const keyIds = calls.map(({ keyId }) => keyId);
  await database.query(statement, [
    keyIds,
    calls.map(({ rid }) => rid),
    calls.map(({ reason }) => reason),
    calls.map(({ status }) => status),
    calls.map(({ endpoint }) => endpoint),
    calls.map(({ model }) => model),
    calls.map(({ detail }) => detail),
  ]);
  const trim = `delete from auth_quota.refused_call as kept using unnest($1::text[]) as reported (key_id)
    where kept.key_id = reported.key_id and kept.rid <= (
      select rid from auth_quota.refused_call as newer where newer.key_id = reported.key_id
      order by rid desc offset ${keptCallsOfKey} limit 1)`;
  await database.query(trim, [[...new Set(keyIds)]]);
}

/** Forgets the counts of before the last week, so many at most; gives how many it were. */
export async function forgetRefusalCounts(database: Database, limit: number): Promise<number> {
  const statement = `delete from auth_quota.refusal_count where ctid = any(array(
    select ctid from auth_quota.refusal_count where minute < now() - interval '${keptDays} days' limit $1))
    returning 1`;
  return (await database.query(statement, [limit])).length;
}

/** Which refusals: those of an account, or of one key of it. */
export type RefusalFilter = { accountId: string; keyId: string };

const ofAccount = `key_id in (select key_id from auth_quota.key where account_id = $1 and ($2 = '' or key_id = $2))`;

/** Sums since then, the most frequent first; `minute` is the last one. */
export async function sumRefusals(
  database: Database,
  { accountId, keyId }: RefusalFilter,
  since: Date,
): Promise<RefusalCountRow[]> {
  const statement = `select key_id as "keyId", reason, status, max(minute) as minute, sum(refusals)::text as refusals
    from auth_quota.refusal_count where ${ofAccount} and minute >= date_trunc('minute', $3::timestamptz)
    group by key_id, reason, status order by sum(refusals) desc, key_id, reason limit ${maxCounts}`;
  type Raw = Omit<RefusalCountRow, "refusals"> & { refusals: string };
  const rows = await database.query<Raw>(statement, [accountId, keyId, since]);
  return rows.map((row) => ({ ...row, refusals: BigInt(row.refusals) }));
}

const maxAccounts = 1_000;
const leastRefusals = 10;

export type AccountRefusalsRow = { accountId: string; reason: string; refusals: bigint };

/** Sums of all accounts since then, the most frequent first. */
export async function sumMostRefused(database: Database, since: Date): Promise<AccountRefusalsRow[]> {
  const statement = `select account_id as "accountId", reason, sum(refusals)::text as refusals
    from auth_quota.refusal_count join auth_quota.key using (key_id)
    where minute >= date_trunc('minute', $1::timestamptz)
    group by account_id, reason having sum(refusals) >= ${leastRefusals}
    order by sum(refusals) desc, account_id, reason limit ${maxAccounts}`;
  type Raw = Omit<AccountRefusalsRow, "refusals"> & { refusals: string };
  const rows = await database.query<Raw>(statement, [since]);
  return rows.map((row) => ({ ...row, refusals: BigInt(row.refusals) }));
}

/** The newest calls, newest first. */
export async function listRefusedCalls(
  database: Database,
  { accountId, keyId }: RefusalFilter,
): Promise<RefusedCallRow[]> {
  const statement = `select key_id as "keyId", rid, reason, status, endpoint, model, detail
    from auth_quota.refused_call where ${ofAccount} order by rid desc limit ${maxCalls}`;
  return database.query<RefusedCallRow>(statement, [accountId, keyId]);
}
