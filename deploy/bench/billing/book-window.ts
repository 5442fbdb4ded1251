import { fileURLToPath } from "node:url";
import { query } from "#shared/testing/postgres.ts";
import { startStores, type PostgresStore } from "#shared/testing/stores.ts";
import { holdProofKeys } from "#shared/testing/proof-keys.ts";
import { until } from "#shared/testing/until.ts";
import { serveAuthQuotaStub } from "../../../services/billing/testing/auth-quota-stub.ts";
import { createLedger, type TestLedger } from "../../../services/billing/testing/ledger.ts";
import { startAnnounced } from "../announced.ts";
import { startMeter, type CpuReader, type Metered } from "../cpu-meter.ts";
import { readProcessUse, readTreeCpuUs } from "../process-use.ts";
import { auditBooks } from "./audit-books.ts";
import { fillStream, streamMaxBytes, type Fill } from "./fill.ts";
import { bookNaively } from "./naive-booking.ts";

/** NATS, PostgreSQL and a stand-in for auth-quota. */
export type BookingWorld = AsyncDisposable & {
  postgres: PostgresStore;
  natsUrl: string;
  natsPid: number;
  authQuotaAddress: string;
};

/** What was seen in a window; `complaints` are what the audit of its books found. */
export type BookingResult = { done: number; metered: Metered; complaints: string[] };

const billingEntry = fileURLToPath(import.meta.resolve("../../../services/billing/main.ts"));
const bookTimeoutMs = 120_000;

/** Starts them; PostgreSQL waits for its disk, as it does in production. */
export async function startBookingWorld(): Promise<BookingWorld> {
  await using resources = new AsyncDisposableStack();
  const { nats, postgres } = resources.use(await startStores({ nats: true, postgres: true, isDurable: true }));
  const stub = resources.use(await serveAuthQuotaStub());
  // What it is told is not looked at, and would only fill the memory.
  stub.onPost = () => Promise.resolve(void stub.posts.splice(0));
  const owned = resources.move();
  return {
    postgres,
    natsUrl: nats.url,
    natsPid: nats.pid,
    authQuotaAddress: stub.address,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** What a window books, and by how many processes. `warmupEvents` are booked before it is measured. */
export type Booking = { fill: Fill; warmupEvents: number; replicas: number };

/**
 * Fills the stream, starts billing processes on an empty ledger and waits until all is booked. Measured is from when
 * `warmupEvents` are booked: what starting costs is not the price of an event.
 */
export async function bookFill(world: BookingWorld, booking: Booking): Promise<BookingResult> {
  const { fill, warmupEvents, replicas } = booking;
  await using ledger = await openLedger(world);
  await fillStream(world.natsUrl, fill);
  await using processes = new AsyncDisposableStack();
  const pids: number[] = [];
  for (let replica = 0; replica < replicas; replica += 1) {
    pids.push(processes.use(await startBilling(world, ledger)).pid);
  }
  const perEventNanos = fill.chargedNanos / BigInt(fill.events);
  const reach = (events: number): Promise<number> =>
    until(`${events} events are booked`, () => bookedAtLeast(ledger, events, perEventNanos), bookTimeoutMs);
  const first = await reach(warmupEvents);
  const stop = startMeter(readersOf(world, pids));
  const last = await reach(fill.events);
  const metered = stop();
  const complaints = await auditBooks(ledger.ownerUrl, { lines: fill.events, chargedNanos: fill.chargedNanos });
  return { done: last - first, metered, complaints };
}

const startBilling = (world: BookingWorld, ledger: TestLedger): ReturnType<typeof startAnnounced> =>
  startAnnounced({
    command: process.execPath,
    args: [billingEntry],
    environment: {
      GRPC_PORT: "0",
      OPS_PORT: "0",
      DATABASE_URL: ledger.url,
      NATS_URL: world.natsUrl,
      ALLOW_PLAIN_GRPC: "always",
      AUTH_QUOTA_ADDRESS: world.authQuotaAddress,
      HOLD_PROOF_KEYS: holdProofKeys,
      USAGE_STREAM_MAX_BYTES: String(streamMaxBytes),
    },
  });

/** Books in the naive way for `durationMs`, after as much of it as warms up. */
export async function bookByBisection(
  world: BookingWorld,
  accounts: number,
  durationMs: number,
): Promise<BookingResult> {
  await using ledger = await openLedger(world);
  const warmup = await bookNaively(ledger, accounts, durationMs / 4);
  const stop = startMeter(readersOf(world, []));
  const run = await bookNaively(ledger, accounts, durationMs);
  const metered = stop();
  const expected = { lines: warmup.events + run.events, chargedNanos: warmup.chargedNanos + run.chargedNanos };
  return { done: run.events, metered, complaints: await auditBooks(ledger.ownerUrl, expected) };
}

// What the window before has left to be written out must not slow this one down, nor its data fill the disk.
async function openLedger({ postgres }: BookingWorld): Promise<TestLedger> {
  const ledger = await createLedger(postgres);
  await query(postgres.url, "CHECKPOINT");
  const drop = async (): Promise<void> => {
    await ledger[Symbol.asyncDispose]();
    await query(postgres.url, `DROP DATABASE ${new URL(ledger.ownerUrl).pathname.slice(1)} WITH (FORCE)`);
  };
  return { ...ledger, [Symbol.asyncDispose]: drop };
}

// On a standing connection: making one for each look would take half a core from what is measured.
async function bookedAtLeast(ledger: TestLedger, events: number, perEventNanos: bigint): Promise<number> {
  const { rows } = await ledger.pool.query(
    "SELECT coalesce(sum(charged_nanos), 0)::bigint AS charged FROM billing.account",
  );
  const booked = Number((rows[0].charged as bigint) / perEventNanos);
  return booked >= events ? booked : 0;
}

// Without a billing process it is the bench itself that books.
function readersOf({ postgres, natsPid }: BookingWorld, billingPids: readonly number[]): Record<string, CpuReader> {
  const booking = billingPids.length === 0 ? [process.pid] : billingPids;
  return {
    billing: () => booking.reduce((sum, pid) => sum + readProcessUse(pid).cpuUs, 0),
    PostgreSQL: () => readTreeCpuUs(postgres.pid),
    NATS: () => readProcessUse(natsPid).cpuUs,
    "auth-quota stub": () => (billingPids.length === 0 ? Number.NaN : readProcessUse(process.pid).cpuUs),
  };
}
