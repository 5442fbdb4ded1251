import { v7 } from "uuid";
import { createLog } from "#shared/process/log.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { startStores } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import {
  createHotStore,
  writeAccount,
  writeBalance,
  writeKey,
  writeSpending,
  type CallLimits,
  type HotAnswer,
  type HotOperation,
  type HotStore,
  type KeySettings,
} from "../store/hot.ts";
import { connectRedis, type HotRedis } from "../store/redis.ts";

type Redis = Awaited<ReturnType<typeof startStores<{ redis: true }>>>["redis"];

/** The money script on a real Redis, without the service around it. */
export type HotEnvironment = AsyncDisposable & { hot: HotStore; redis: HotRedis; server: Redis };

export const silentLog = createLog("test", "silent");

export async function startHotWorld(limits: Partial<CallLimits> = {}): Promise<HotEnvironment> {
  await using resources = new AsyncDisposableStack();
  const stores = resources.use(await startStores({ redis: true }));
  const redis = resources.use(connectRedis(stores.redis.url, silentLog));
  await until("redis is ready", () => redis.status === "ready");
  const owned = resources.move();
  const usual = { accountPerMinute: 600, ipPerMinute: 1_200, accountConcurrent: 0 };
  const hot = createHotStore(redis, { ...usual, ...limits });
  await hot.establish(false);
  return {
    hot,
    redis,
    server: stores.redis,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Names of things that no other test uses. */
export type Names = { account: string; key: string; session: string };

let made = 0;

export function freshNames(): Names {
  made += 1;
  return { account: `acct_${made}`, key: `key_${made}`, session: `relay_${made}` };
}

export const record = (text: string): Buffer => Buffer.from(`record of ${text}`);

const fundsOf = (nanos: number, version: number, spent: number) => ({
  nanos: BigInt(nanos),
  spentNanos: BigInt(spent),
  version: BigInt(version),
});

/** Operations of one account, key and relay, each answered on its own. */
export function actor(hot: HotStore, names = freshNames()) {
  const { account, key, session } = names;
  const one = async (relaySession: string, operation: HotOperation): Promise<HotAnswer> => {
    const [answer] = await hot.apply(relaySession, [operation]);
    if (!answer) throw new Error("no answer");
    return answer;
  };
  const byRelay = (operation: HotOperation) => one(session, operation);
  return {
    ...names,
    fund: (nanos: number, version = 1, spent = 0) =>
      one("", writeBalance(account, fundsOf(nanos, version, spent), hot.generation())),
    spend: (nanos: number, version = 1) =>
      one(
        "",
        writeSpending(
          { accountId: account, keyId: key },
          { nanos: BigInt(nanos), version: BigInt(version) },
          hot.generation(),
        ),
      ),
    setAccount: (status = "active", requestsPerMinute = 0, version = 1, maxConcurrent = 0) => {
      const limits = { requestsPerMinute, maxConcurrent, limitNanos: null };
      return one("", writeAccount({ accountId: account, status, ...limits, version: BigInt(version) }));
    },
    /** Limits what the account may spend, in the place of all other settings. */
    limitAccount: (limitNanos: bigint | null, version: number) => {
      const limits = { requestsPerMinute: 0, maxConcurrent: 0, limitNanos };
      return one("", writeAccount({ accountId: account, status: "active", ...limits, version: BigInt(version) }));
    },
    setKey: (change: Partial<KeySettings> = {}) => {
      const none = {
        expiresAtMs: undefined,
        limitNanos: undefined,
        models: [],
        maxConcurrent: 0,
        requestsPerMinute: 0,
        addresses: [],
      };
      const usual = { status: "active", ...none, version: 1n };
      return one("", writeKey({ keyId: key, accountId: account, ...usual, ...change }));
    },
    authorize: (ip = "", mayBeUsedUp = false, address = "") =>
      byRelay(["authorize", ip, key, account, mayBeUsedUp ? "1" : "", address]),
    reserve: (rid: string, estimate: number, { model = "m", ip = "", keyId = key, address = "" } = {}) =>
      byRelay(["reserve", rid, String(ridTimeMs(rid)), ip, keyId, account, model, String(estimate), address]),
    extend: (rid: string, total: number, least = 0) => byRelay(["extend", rid, String(total), String(least), account]),
    restore: (rid: string, held: number, cost = 0) =>
      byRelay([
        "restore",
        rid,
        account,
        key,
        String(held),
        String(cost),
        record(cost > 0 ? `part ${cost} ${rid}` : ""),
      ]),
    checkpoint: (rid: string, cost: number) =>
      byRelay(["checkpoint", rid, String(cost), record(`part ${cost} ${rid}`), account]),
    settle: (rid: string, cost: number) =>
      byRelay(["settle", rid, account, key, String(cost), record(`final ${cost} ${rid}`)]),
    release: (rid: string) => byRelay(["release", rid, account]),
    lookup: async (rid: string) => (await byRelay(["lookup", rid, account])).number,
    endSession: (ended = session) => one("", ["end-session", ended, "200"]),
    post: (rid: string, booked: number, isFinal = true) => one("", ["post", rid, String(booked), isFinal ? "1" : "0"]),
    sums: () => hot.readSums(account),
  };
}

/** An actor with an active account and key, and money. */
export async function fundedActor(hot: HotStore, nanos: number, change: Partial<KeySettings> = {}) {
  const acting = actor(hot);
  await acting.setAccount();
  await acting.setKey(change);
  await acting.fund(nanos);
  if (change.limitNanos !== undefined) await acting.spend(0);
  return acting;
}

export const newRid = (): string => v7();
