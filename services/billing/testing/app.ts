import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { systemClock } from "#shared/process/clock.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { streamingClient, type StreamingClient } from "#shared/grpc/stream.ts";
import { connectGrpc, serveGrpc, unaryClient, type UnaryClient } from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";
import type { Databases } from "#shared/testing/share.ts";
import { buildApp, type AppDeps } from "../app.ts";
import { bookBatch } from "../intake/book.ts";
import { readMessage } from "../records/read-event.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import type { Posting, BalancePusher } from "../intake/push-balances.ts";
import { bookingOn, trusting } from "./billing.ts";
import { encodeBatch, encodeEvent, makeEvent, type EventFields } from "./events.ts";
import { createLedger } from "./ledger.ts";

/** Billing's gRPC calls on a loopback port, and clients for them. */
export type ServedApp = AsyncDisposable & {
  billing: UnaryClient<typeof BillingService>;
  streams: StreamingClient<typeof BillingService>;
};

const away = (): Promise<never> => Promise.reject(new ServiceError("unavailable", "not part of this test"));
const noAuthQuota = { auditAccounts: away, listUnposted: away };
const noNats = { current: () => undefined, [Symbol.asyncDispose]: () => Promise.resolve() };

/** Serves billing's calls. `given` replaces parts; left out: the time of the system, no NATS, no auth-quota. */
export async function serveApp(pool: Pool, pusher: BalancePusher, given: Partial<AppDeps> = {}): Promise<ServedApp> {
  await using resources = new AsyncDisposableStack();
  const log = createLog("test", "silent");
  const absent = {
    readPool: pool,
    nats: noNats,
    authQuota: noAuthQuota,
    signingKey: undefined,
    proofs: trusting,
    place: undefined,
  };
  const deps = { ...bookingOn(pool), ...absent, pusher, clock: systemClock, log, ...given };
  const listen = { host: "127.0.0.1", port: 0, drainMs: 100 };
  const server = resources.use(await serveGrpc([[BillingService, buildApp(deps)]], listen));
  const channel = resources.use(connectGrpc(`127.0.0.1:${server.port}`));
  const owned = resources.move();
  return {
    billing: unaryClient(BillingService, channel, 10_000),
    streams: streamingClient(BillingService, channel, 10_000),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/**
 * Billing's calls on a ledger of their own, with what they told an auth-quota that confirms nothing. `book` books
 * events at once.
 */
export async function startApp(postgres: Databases, given: Partial<AppDeps> = {}) {
  await using resources = new AsyncDisposableStack();
  const ledger = resources.use(await createLedger(postgres));
  const told: Posting[] = [];
  const pusher: BalancePusher = {
    push: async (posting) => {
      told.push(posting);
      return false;
    },
    repair: () => Promise.resolve(),
  };
  const { billing, streams } = resources.use(await serveApp(ledger.pool, pusher, given));
  const booking = { ...bookingOn(ledger.pool), ...given };
  const book = (...events: EventFields[]) =>
    bookBatch(
      booking,
      readMessage(encodeBatch(events.map((event) => encodeEvent(makeEvent(event)))), 1, booking.clock.nowMs()),
    );
  const owned = resources.move();
  return { ledger, billing, streams, told, book, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
