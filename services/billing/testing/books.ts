import type { KeyObject } from "node:crypto";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import type { AuditAccountsResponse, AuditedAccount } from "#proto/authquota/v1/authquota_pb.ts";
import { createLog } from "#shared/process/log.ts";
import { createRid } from "#shared/money/rid.ts";
import { query } from "#shared/testing/postgres.ts";
import type { Databases } from "#shared/testing/share.ts";
import { until } from "#shared/testing/until.ts";
import { usageStream, usageSubject } from "#shared/stores/usage-stream.ts";
import { dayOfMs } from "../records/check.ts";
import { runChecks, type ReconcileDeps } from "../reconcile/checks.ts";
import type { ReportLine } from "#shared/money/report.ts";
import { windowOfDay, windowOfLately } from "../reconcile/reconcile.ts";
import { readAccounts } from "../store/funds.ts";
import { consumerName } from "../intake/stream.ts";
import { serveAuthQuotaStub } from "./auth-quota-stub.ts";
import { bookingOn, startBilling } from "./billing.ts";
import { encodeBatch, encodeEvent, makeEvent, type EventFields } from "./events.ts";
import { createLedger } from "./ledger.ts";
import type { TestNats } from "./nats.ts";

/** What the hot store says of itself, to be falsified. */
export type HotState = {
  account: Partial<AuditedAccount>;
  whole: Partial<Pick<AuditAccountsResponse, "isCounted" | "oldestHoldMs" | "oldestUnpostedMs">>;
  /** Records in the outbox. */
  unposted: Uint8Array[];
  isAway: boolean;
};

type BooksStores = { postgres: Databases; nats: TestNats; connection: NatsConnection; signingKey?: KeyObject };

const aheadMs = 240_000;

/**
 * Ledger, stream and hot store that agree, as billing keeps them. Time is four minutes ahead, so that what is booked
 * now has had its time to settle. `falsify` writes as the owner and past the triggers.
 */
async function startBooks({ postgres, nats, connection, signingKey }: BooksStores) {
  await using resources = new AsyncDisposableStack();
  const manager = await jetstreamManager(connection);
  await manager.streams.delete(usageStream).catch(() => undefined);
  const ledger = resources.use(await createLedger(postgres));
  const { pool, ownerUrl } = ledger;
  const stub = resources.use(await serveAuthQuotaStub());
  const billing = resources.use(startBilling({ pool, natsUrl: nats.url, authQuotaAddress: stub.address }));
  await until("the stream is declared", () => manager.consumers.info(usageStream, consumerName));
  const says: HotState = { account: {}, whole: {}, unposted: [], isAway: false };
  const { metrics } = bookingOn(pool);
  const reconciling: ReconcileDeps = {
    pool,
    nats: { current: () => connection, [Symbol.asyncDispose]: () => Promise.resolve() },
    authQuota: createHot(says, (ids) => readAccounts(pool, ids)),
    metrics,
    clock: { nowMs: () => Date.now() + aheadMs },
    log: createLog("test", "silent"),
    signingKey,
  };
  const relaySession = createRid();
  let sequence = 0n;
  const publish = async (...given: EventFields[]) => {
    const events = given.map((event) => makeEvent({ relaySession, sequence: sequence++, ...event }));
    const { seq } = await jetstream(connection).publish(usageSubject, encodeBatch(events.map(encodeEvent)));
    await until("the events are acknowledged", async () => {
      return (await manager.consumers.info(usageStream, consumerName)).ack_floor.stream_seq >= seq;
    });
    return events;
  };
  const falsify = (statements: string) => query(ownerUrl, `SET session_replication_role = replica; ${statements}`);
  const owned = resources.move();
  return {
    ledger,
    billing,
    says,
    reconciling,
    relaySession,
    publish,
    falsify,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Books of one account with three calls of 400 nano-USD each. */
export async function startThreeCalls(places: BooksStores) {
  const books = await startBooks(places);
  const events = await books.publish({}, {}, {});
  const [, second = ""] = events.map(({ rid }) => rid);
  return { ...books, second, day: dayOfMs(Date.now()) };
}

export type ThreeCalls = Awaited<ReturnType<typeof startThreeCalls>>;

/** The lines of a run, by check. */
export async function look(
  { reconciling, day }: Pick<ThreeCalls, "reconciling" | "day">,
  span: "day" | "lately",
): Promise<Map<string, ReportLine>> {
  const nowMs = reconciling.clock.nowMs();
  const window = span === "day" ? windowOfDay(day, nowMs) : windowOfLately(nowMs);
  return new Map((await runChecks(reconciling, window)).map((line) => [line.check, line]));
}

/** Statements that put a copy of a call's line into the ledger, changed. */
export function copyOf(rid: string, changes: string): string {
  return `CREATE TEMP TABLE copied AS SELECT * FROM billing.ledger_line WHERE rid = '${rid}' AND kind <= 3;
    UPDATE copied SET ${changes},
      line_id = overlay(gen_random_uuid()::text PLACING left(line_id::text, 13) FROM 1)::uuid;
    INSERT INTO billing.ledger_line SELECT * FROM copied;`;
}

type ReadAccounts = (ids: string[]) => ReturnType<typeof readAccounts>;

// The newest balance of every account, nothing held, nothing owed.
function createHot(says: HotState, read: ReadAccounts): ReconcileDeps["authQuota"] {
  return {
    auditAccounts: async ({ accountIds = [] }) => {
      if (says.isAway) throw new Error("the hot store is away");
      const rows = new Map((await read(accountIds)).map((row) => [row.accountId, row]));
      const accounts = accountIds.map((accountId) => {
        const row = rows.get(accountId);
        return { ...nothing, postedNanos: row?.balanceNanos ?? 0n, postedVersion: row?.version ?? 0n, accountId };
      });
      const whole = { isCounted: true, oldestHoldMs: 0n, oldestUnpostedMs: 0n, unpostedCalls: 0n, ...says.whole };
      const told = accounts.map((account) => ({ ...account, ...says.account }));
      return { ...whole, accounts: told } as AuditAccountsResponse;
    },
    listUnposted: async () => {
      if (says.isAway) throw new Error("the hot store is away");
      return { records: says.unposted } as unknown as Awaited<ReturnType<ReconcileDeps["authQuota"]["listUnposted"]>>;
    },
  };
}

const nothing = {
  isLoaded: true,
  heldNanos: 0n,
  unpostedNanos: 0n,
  openHolds: 0n,
  unpostedCalls: 0n,
  countedHeldNanos: 0n,
  countedUnpostedNanos: 0n,
  isMoving: false,
};
