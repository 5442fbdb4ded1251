import { create, fromBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { ReplayRequestSchema, type ReplayRequest, type ReplayResponseSchema } from "#proto/billing/v1/billing_pb.ts";
import { UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { bookBatch, type BookingDeps } from "../intake/book.ts";
import { badRequest, requireId, requireTimeMs } from "./check-request.ts";
import type { NatsLink } from "../intake/nats.ts";
import { planBatch, type AccountFunds, type BookedCall, type Plan } from "../records/plan.ts";
import { readMessage, type ReadMessage, type Reject } from "../records/read-event.ts";
import { readStreamAgain, type StreamMessage, type StreamSpan } from "../intake/read-stream.ts";
import { readAccounts } from "../store/funds.ts";
import { readBookedCalls } from "../store/post.ts";
import type { Proofs } from "../records/proofs.ts";
import type { BalancePusher } from "../intake/push-balances.ts";
import type { ReplayTotals } from "../intake/repair-ledger.ts";

/** What reading the stream again needs. */
export type ReplayDeps = BookingDeps & { nats: NatsLink; pusher: BalancePusher; proofs: Proofs };

const eventsPerBatch = 500;

/**
 * Reads the usage stream again and books what the ledger lacks, in the way of the consumer: what is booked already
 * stays as it is, what cannot be booked goes to quarantine. A dry run changes nothing. Each response tells all so far.
 * Events that the consumer has in hand at this moment count as missing, too. Ends when the caller is gone.
 */
export async function* replay(
  deps: ReplayDeps,
  request: ReplayRequest,
  gone: AbortSignal,
): AsyncGenerator<MessageInitShape<typeof ReplayResponseSchema>> {
  const span = requireStreamSpan(request);
  const accountId = request.accountId === "" ? undefined : requireId("account_id", request.accountId);
  const totals = { events: 0n, known: 0n, missing: 0n, missingNanos: 0n, rejected: 0n };
  const planned = new Map<string, BookedCall>();
  for await (const batch of batchesOf(readStreamAgain(deps.nats, span, gone), deps)) {
    const wanted = accountId === undefined ? batch : ofAccount(batch, accountId);
    const plan = await examine(deps, wanted, planned);
    if (request.dryRun) remember(planned, plan);
    else await book(deps, wanted, plan);
    totals.events += BigInt(wanted.events.length + wanted.rejects.length);
    totals.known += BigInt(plan.duplicates + plan.superseded);
    totals.missing += BigInt(plan.lines.length);
    totals.rejected += BigInt(plan.rejects.length + wanted.rejects.length);
    for (const { amountNanos } of plan.lines) totals.missingNanos -= amountNanos;
    yield { ...totals, missingRids: plan.lines.map(({ read }) => read.event.rid) };
  }
  if (gone.aborted) return;
  const { events, missing, rejected } = totals;
  const { dryRun } = request;
  deps.log.info({ events: `${events}`, missing: `${missing}`, rejected: `${rejected}`, dryRun }, "stream replayed");
  yield { ...totals, isDone: true };
}

/** Books what the ledger lacks of all that the stream has taken from a time on, in milliseconds since 1970. */
export async function replayAll(deps: ReplayDeps, fromMs: number | undefined): Promise<ReplayTotals> {
  const request = create(ReplayRequestSchema, fromMs === undefined ? {} : { from: timestampFromMs(fromMs) });
  let totals: ReplayTotals = { events: 0n, missing: 0n, missingNanos: 0n, rejected: 0n };
  for await (const response of replay(deps, request, new AbortController().signal)) totals = { ...totals, ...response };
  return totals;
}

function requireStreamSpan({ from, until }: ReplayRequest): StreamSpan {
  const span = { fromMs: from && requireTimeMs("from", from), untilMs: until && requireTimeMs("until", until) };
  if (span.fromMs !== undefined && span.untilMs !== undefined && span.untilMs <= span.fromMs) {
    throw badRequest("until must be after from");
  }
  return span;
}

// A message may hold more events than a batch: it is divided, so that no response and no transaction outgrows its
// bound.
async function* batchesOf(
  messages: AsyncIterable<StreamMessage>,
  { clock, proofs }: Pick<ReplayDeps, "clock" | "proofs">,
): AsyncGenerator<ReadMessage> {
  let batch: ReadMessage = { events: [], rejects: [] };
  for await (const { data, sequence, timeMs } of messages) {
    const { events, rejects } = readMessage(data, sequence, clock.nowMs(), proofs(timeMs));
    for (const event of events) {
      batch.events.push(event);
      if (batch.events.length >= eventsPerBatch) {
        yield batch;
        batch = { events: [], rejects: [] };
      }
    }
    batch.rejects.push(...rejects);
    if (batch.rejects.length >= eventsPerBatch) {
      yield batch;
      batch = { events: [], rejects: [] };
    }
  }
  if (batch.events.length + batch.rejects.length > 0) yield batch;
}

// Bytes that do not even name an account are nobody's.
function ofAccount({ events, rejects }: ReadMessage, accountId: string): ReadMessage {
  return {
    events: events.filter(({ event }) => event.accountId === accountId),
    rejects: rejects.filter((reject) => accountOf(reject) === accountId),
  };
}

function accountOf({ payload, reason }: Reject): string | undefined {
  return reason === "unreadable" ? undefined : fromBinary(UsageRecordedSchema, payload).accountId;
}

// What booking would decide, without locks: the decision that counts is taken again when it is booked.
async function examine({ pool, clock }: ReplayDeps, { events }: ReadMessage, planned: PlannedCalls): Promise<Plan> {
  const calls = await readBookedCalls(pool, events);
  for (const { event } of events) {
    const call = planned.get(event.rid);
    if (call) calls.set(event.rid, call);
  }
  const ids = [...new Set(events.map(({ event }) => event.accountId))];
  const accounts = new Map<string, AccountFunds>(ids.map((id) => [id, { balanceNanos: 0n, chargedNanos: 0n }]));
  for (const { accountId, ...funds } of await readAccounts(pool, ids)) accounts.set(accountId, funds);
  return planBatch(events, { calls, accounts }, clock.nowMs());
}

type PlannedCalls = Map<string, BookedCall>;

const rememberedCalls = 100_000;

// The stream may hold an event more than once; a dry run, which books nothing, would count it as missing each time.
function remember(planned: PlannedCalls, { lines, calls }: Plan): void {
  for (const { read } of lines) {
    const { rid } = read.event;
    const call = calls.get(rid);
    if (call) planned.set(rid, call);
  }
  for (const rid of planned.keys()) {
    if (planned.size <= rememberedCalls) return;
    planned.delete(rid);
  }
}

async function book(deps: ReplayDeps, { events, rejects }: ReadMessage, plan: Plan): Promise<void> {
  const toBook = new Set([...plan.lines.map(({ read }) => read.hash), ...plan.rejects.map(({ hash }) => hash)]);
  if (toBook.size + rejects.length === 0) return;
  const posting = await bookBatch(deps, { events: events.filter(({ hash }) => toBook.has(hash)), rejects });
  await deps.pusher.push(posting);
}
