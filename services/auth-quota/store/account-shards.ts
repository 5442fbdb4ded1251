import type { Database } from "./postgres.ts";

/** Where the hot money of an account is, when it was ever moved, and where it is going. */
export type AccountPlace = {
  accountId: string;
  shard: number;
  /** Undefined: it stays where it is. */
  movingTo: number | undefined;
  /** Of its last move. */
  number: number;
  /** Since that began, or ended. */
  sinceSeconds: number;
};

type RawPlace = Omit<AccountPlace, "movingTo" | "number"> & { movingTo: number | null; number: string };

const columns = `account_id as "accountId", shard, moving_to as "movingTo", number,
  extract(epoch from now() - changed_at)::float8 as "sinceSeconds"`;

const fromRaw = ({ movingTo, number, ...place }: RawPlace): AccountPlace => ({
  ...place,
  movingTo: movingTo ?? undefined,
  number: Number(number),
});

/** At most so many accounts may be elsewhere than their hashes say: each process reads all of them every second. */
export const maxPlaces = 1_000;

export async function readPlaces(database: Database): Promise<AccountPlace[]> {
  const statement = `select ${columns} from auth_quota.account_shard order by account_id limit ${maxPlaces}`;
  return (await database.query<RawPlace>(statement, [])).map(fromRaw);
}

/**
 * Has an account move on to `movingTo` from `shard`, where it is when nothing else is known; one that is already moving
 * goes there instead. `after`: a number that was given out already. Undefined: there are too many accounts.
 */
export async function beginMove(
  database: Database,
  { accountId, shard, movingTo, after = 0 }: Pick<AccountPlace, "accountId" | "shard"> & BeginMove,
): Promise<AccountPlace | undefined> {
  const statement = `insert into auth_quota.account_shard as known (account_id, shard, moving_to, number)
    select $1, $2, $3, greatest((extract(epoch from clock_timestamp()) * 1000)::bigint, $4::bigint + 1)
    where (select count(*) from auth_quota.account_shard where account_id <> $1) < ${maxPlaces}
    on conflict (account_id) do update set moving_to = excluded.moving_to, changed_at = now(),
      number = greatest(known.number + 1, excluded.number)
    returning ${columns}`;
  return (await database.query<RawPlace>(statement, [accountId, shard, movingTo, after])).map(fromRaw)[0];
}

type BeginMove = { movingTo: number; after?: number };

/** Records that a move is over, unless another one began meanwhile. */
export async function endMove(database: Database, { accountId, movingTo, number }: AccountPlace): Promise<void> {
  const statement = `update auth_quota.account_shard set shard = moving_to, moving_to = null, changed_at = now()
    where account_id = $1 and moving_to = $2 and number = $3`;
  await database.query(statement, [accountId, movingTo, number]);
}

/** The ids of all keys that an account ever had. */
export async function readKeyIds(database: Database, accountId: string): Promise<string[]> {
  const statement = `select key_id as "keyId" from auth_quota.key where account_id = $1`;
  return (await database.query<{ keyId: string }>(statement, [accountId])).map(({ keyId }) => keyId);
}
