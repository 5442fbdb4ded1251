import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { systemClock } from "#shared/clock.ts";
import { connectGrpc, serveGrpc, unaryClient, type UnaryClient } from "#shared/grpc.ts";
import { createLog } from "#shared/log.ts";
import { buildApp } from "../app.ts";
import { createLedgerDays } from "../store/days.ts";
import type { Pool } from "../store/pool.ts";
import type { Teller } from "../tell.ts";

/** Billing's gRPC calls on a loopback port, and a client for them. */
export async function serveApp(
  pool: Pool,
  teller: Teller,
): Promise<AsyncDisposable & { billing: UnaryClient<typeof BillingService> }> {
  await using resources = new AsyncDisposableStack();
  const log = createLog("test", "silent");
  const app = buildApp({ pool, days: createLedgerDays(pool), teller, clock: systemClock, log });
  const listen = { host: "127.0.0.1", port: 0, drainMs: 100 };
  const server = resources.use(await serveGrpc([[BillingService, app]], listen));
  const channel = resources.use(connectGrpc(`127.0.0.1:${server.port}`));
  const owned = resources.move();
  return { billing: unaryClient(BillingService, channel, 10_000), [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
