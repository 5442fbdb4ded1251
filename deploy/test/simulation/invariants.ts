import { readAnswers } from "../../../services/auth-quota/store/hot.ts";
import type { RunAnswer } from "../../../services/auth-quota/store/money-command.ts";
import type { FailureName } from "../../../services/relay/failures.ts";
import { readMessage } from "../../../services/billing/records/read-event.ts";
import { priceOf, type Payer, type Truth } from "./caller.ts";
import { hashOf, hotCalls, isOwing, most, sumsOf, type HotCall } from "./hot-state.ts";
import { checkRefusal, noteLeases, noteStopped } from "./lease-rules.ts";
import { checkKeysAtRest, createKeyChecks, createOpenChecks } from "./key-sums.ts";
import type { Line } from "./ledger.ts";
import type { LuaValue } from "./lua.ts";
import { checkOverspend, noteSwept } from "./overspend.ts";
import { clocks, redisLoss } from "./profile.ts";
import type { StoredMessage } from "./stream.ts";
import { hasMoves, lossesOf, redisOf, type World } from "./world.ts";

const conflict = 10;

export type RunChecks = {
  /** Looks at Redis after a run of the script. */
  afterRun: (values: string[], answer: LuaValue) => void;
};

const headValues = 8;
const settling = ["settle", "settle-own", "restore", "post", "draw", "draw-proven"].concat([
  "settle-leased",
  "settle-leased-proven",
  "post-leased",
]);
const quietOperations = new Set(["gate", "sweep", "sweep-forgotten", "sweep-leases", "establish", "note-sequence"]);

/** What must hold after every run of the money script: M1, M2, M3, M5, M6 and M7 of state.lua, I7, I8, I18. */
export function createRunChecks(world: World): RunChecks {
  const heldBefore = new Map<string, bigint>();
  const versions = new Map<string, bigint>();
  const checkKey = createKeyChecks(world);
  const checkOpen = createOpenChecks(world);
  const checkAccount = (
    { accountId, mostOfAccount, limitOfAccount }: Payer,
    calls: Map<string, HotCall>,
    hasSettled: boolean,
  ): void => {
    const hash = hashOf(world, accountId, `account:${accountId}`);
    const held = BigInt(hash["held"] ?? 0);
    const unposted = BigInt(hash["unposted"] ?? 0);
    // A call that is over and owes nothing has forgotten whose it was.
    const isOwn = (rid: string, { state, accountId: leasedTo }: HotCall): boolean =>
      state === "leased" ? leasedTo === accountId : world.truths.get(rid)?.payer.accountId === accountId;
    const own = [...calls].filter(([rid, call]) => isOwn(rid, call));
    const counted = sumsOf(own.map(([, call]) => call));
    if (held !== counted.held || unposted !== counted.unposted) {
      world.violate(
        `M2: ${accountId} held ${held} unposted ${unposted}, its calls add up to ${JSON.stringify(
          [counted.held, counted.unposted].map(String),
        )}`,
      );
    }
    checkOpen({ id: accountId, accountId, hash, own: own.map(([, call]) => call), most: mostOfAccount }, hasSettled);
    // After a loss sums are what they were before it, which is no grant.
    const name = `${accountId} ${redisOf(world, accountId).name} ${lossesOf(world, accountId).length}`;
    const hasGranted = held > (heldBefore.get(name) ?? held);
    heldBefore.set(name, held);
    // Known from an earlier stay, it counts as not there.
    const isForgotten = hash["move"] !== undefined && hash["posted_in"] === undefined;
    if (hash["posted_version"] === undefined || isForgotten) return;
    const available = BigInt(hash["posted"] ?? 0) - held - unposted;
    // A shard that has lost data may owe what is in the balance of the one to which the account has moved.
    if (hasMoves(world.seed) && lossesOf(world, accountId).length > 0) return;
    if (hasGranted && !hasSettled && available < 0n) world.violate(`I7: a grant left ${accountId} with ${available}`);
    if (hasGranted && !hasSettled) checkLimit(world, accountId, limitOfAccount, hash);
    const version = BigInt(hash["posted_version"]);
    if (version < (versions.get(name) ?? 0n)) world.violate(`I8: the version of ${accountId} went back to ${version}`);
    versions.set(name, version);
    // Of what was booked since, the shard to which the account has moved may not have heard in any other way.
    const isBehind = hasMoves(world.seed) && version < (world.ledger.accounts.get(accountId)?.version ?? 0n);
    if (!isBehind) checkNotOverstated(world, { accountId, available, own });
  };
  return {
    afterRun: (values, answer) => {
      const codes = readAnswers(answer as RunAnswer).map(({ code }) => code);
      if (codes.includes(conflict)) world.violate("M7: an operation was answered with a conflict");
      noteSwept(world, values[headValues], answer);
      noteStopped(world, values);
      noteLeases(world, values);
      if (world.hasLeases) checkRefusal(world, values.slice(headValues), codes);
      if (values.length <= headValues || quietOperations.has(values[headValues] ?? "")) return;
      const calls = hotCalls(world);
      checkGrants(world, values, calls);
      const hasSettled = settling.some((name) => values.includes(name));
      for (const payer of world.payers) {
        checkAccount(payer, calls, hasSettled);
        checkKey(payer, calls, hasSettled);
      }
    },
  };
}

/** M3 for the limit of an account: no grant goes beyond it. */
function checkLimit(world: World, accountId: string, limit: string | null, hash: Record<string, string>): void {
  if (limit === null) return;
  const [spent = 0n, held = 0n, unposted = 0n] = ["spent", "held", "unposted"].map((name) => BigInt(hash[name] ?? 0));
  const left = BigInt(limit) - spent - held - unposted;
  if (left < 0n) world.violate(`I7: a grant took ${accountId} ${-left} beyond its limit`);
}

/**
 * I7 by what relays really have in hand, whatever Redis remembers: when a hold or a lease is granted, the ledger has
 * the money for it beside all that is held for calls, leased, or owed. Where relays were kept from restoring their
 * holds after a loss this need not be so, and how far a balance fell below zero is counted instead.
 */
function checkGrants(world: World, values: readonly string[], calls: Map<string, HotCall>): void {
  const rid = grantedIn(world, values, calls);
  const hot = rid === undefined ? undefined : calls.get(rid);
  if (rid === undefined || !hot) return;
  const { accountId } = hot;
  if (lossesOf(world, accountId).length > 0 && world.profile.name !== redisLoss) return;
  let left = (world.ledger.accounts.get(accountId)?.balanceNanos ?? 0n) - hot.held;
  for (const [other, lease] of calls) {
    if (lease.state === "leased" && lease.accountId === accountId && other !== rid) left -= lease.held;
  }
  for (const truth of world.truths.values()) {
    if (truth.payer.accountId === accountId && truth.rid !== rid) left -= inHand(world, truth, calls);
  }
  if (left < 0n) world.violate(`I7: ${rid} was granted ${hot.held} although ${accountId} then lacks ${-left}`);
}

/** The call or lease for which a run has set money aside, when it is looked at for the first time. */
function grantedIn(world: World, values: readonly string[], calls: Map<string, HotCall>): string | undefined {
  if (values.includes("lease")) {
    const rid = values[values.indexOf("lease") + 1] ?? "";
    if (calls.get(rid)?.state !== "leased" || world.leasesSeen.has(rid)) return undefined;
    world.leasesSeen.add(rid);
    return rid;
  }
  if (!values.includes("reserve")) return undefined;
  const rid = values[values.indexOf("reserve") + 1] ?? "";
  const granted = world.truths.get(rid);
  if (granted?.state !== "asking" || granted.isCounted || calls.get(rid)?.state !== "held") return undefined;
  granted.isCounted = true;
  world.onAdmitted(granted.payer);
  return rid;
}

/** Money that is set aside for a call, or owed by it, beyond what is booked of it. */
function inHand({ ledger, sweptSessions }: World, truth: Truth, calls: Map<string, HotCall>): bigint {
  const hot = calls.get(truth.rid);
  // Not told yet: it lies in the lease, also what is booked of it.
  if (!hot && calls.get(truth.leaseRid)?.state === "leased") return -(ledger.calls.get(truth.rid)?.chargedNanos ?? 0n);
  // Nobody was told of it, and its relay is gone: its money went back with the lease.
  if (!hot && truth.leaseRid !== "" && truth.process.state === "dead") return 0n;
  const isTaken = truth.state === "running" || truth.state === "settling" || truth.state === "settled";
  if (!isTaken) return 0n;
  // Ended for a relay that was silent: what is owed beyond that was served without a hold.
  const booked = ledger.calls.get(truth.rid)?.chargedNanos ?? 0n;
  if (hot && hot.state !== "held") {
    const owed = isOwing(hot) ? most(0n, hot.amount - booked) : 0n;
    // Booked meanwhile, and auth-quota has not heard of it: see below.
    return sweptSessions.has(truth.relaySession) ? owed - most(0n, booked - most(hot.amount, hot.booked)) : owed;
  }
  const held = truth.call?.heldNanos ?? 0n;
  const owed = truth.finalNanos !== undefined && truth.finalNanos < held ? truth.finalNanos : held;
  // Booked beyond its hold, and auth-quota has not heard of it: nobody could know that this money is gone.
  return hot ? owed - booked : most(0n, owed - booked);
}

/** What Redis counts for a call, in its sums or in the balance that it was told. */
function knownOf(call: HotCall): bigint {
  if (call.state === "held" || call.state === "leased") return call.held;
  return isOwing(call) ? call.amount : call.booked;
}

type Available = { accountId: string; available: bigint; own: [string, HotCall][] };

/**
 * M6: what is available is never more than what the ledger says, less what calls hold and owe beyond what is booked of
 * them. After a loss this holds again only when the recovery lock has opened.
 */
function checkNotOverstated(world: World, { accountId, available, own }: Available): void {
  if (lossesOf(world, accountId).length > 0) return;
  let real = world.ledger.accounts.get(accountId)?.balanceNanos ?? 0n;
  for (const [rid, call] of own) {
    const booked = world.ledger.calls.get(rid)?.chargedNanos ?? 0n;
    real -= knownOf(call) - booked;
  }
  real += bookedUnheard(world, accountId, own);
  if (available > real) world.violate(`M6: ${accountId} has ${available} available, really no more than ${real}`);
}

/** What is booked of calls that were admitted within a lease, and of which Redis has not heard yet. */
function bookedUnheard({ truths, ledger }: World, accountId: string, own: [string, HotCall][]): bigint {
  const heard = new Set(own.map(([rid]) => rid));
  let booked = 0n;
  for (const { rid, leaseRid, payer } of truths.values()) {
    if (leaseRid === "" || payer.accountId !== accountId || heard.has(rid)) continue;
    booked += ledger.calls.get(rid)?.chargedNanos ?? 0n;
  }
  return booked;
}

// Longer than a call waits for its decision, and than a rate that counts as used up needs for one more.
const againMs = 3_000;

/**
 * Where nothing is wrong but clocks, a call that begins once they are right is decided, and not refused for its rate
 * unless another one came just before: whatever the clocks were until then.
 */
export function checkServed(world: World, { rid, startedAtMs }: Truth, refusal: FailureName): void {
  const { profile, relays, redises, clockRightAtMs } = world;
  // Calls of an account that is moving wait until the others have ended, some for too long.
  if (hasMoves(world.seed)) return;
  if (profile.name !== clocks || clockRightAtMs === undefined || startedAtMs < clockRightAtMs + againMs) return;
  if (redises.some(({ clockAheadMs }) => clockAheadMs !== 0) || relays.some(({ clockAheadMs }) => clockAheadMs !== 0))
    return;
  const isAlone = ![...world.truths.values()].some(
    (other) => other.rid !== rid && Math.abs(startedAtMs - other.startedAtMs) < againMs,
  );
  const isRate = refusal === "account_rate" || refusal === "ip_rate";
  if (refusal !== "service_unavailable" && !(isRate && isAlone)) return;
  world.violate(`I17: ${rid} was refused (${refusal}) although all clocks are right`);
}

/** I9: what is acknowledged is committed. */
export function checkAcked(world: World, { data, seq }: StoredMessage): void {
  const { events } = readMessage(data, seq, Date.now());
  for (const { event } of events) {
    if (!world.ledger.calls.has(event.rid)) world.violate(`I9: ${event.rid} was acknowledged and is not booked`);
  }
}

// What becomes of a call in one of these states is auth-quota's to charge.
const chargedByAuthQuota = new Set(["settled", "held", "expired"]);

/**
 * I9 for the first home: the spool lets go of what is booked as final, and of nothing else. A checkpoint may go as
 * soon as auth-quota has the final record that the disk refused, or a later checkpoint that it will charge: one that
 * the disk refused, or that a hold was restored with.
 */
export function checkConfirmed(world: World, rid: string): void {
  if (world.ledger.calls.get(rid)?.final) return;
  const state = hotCalls(world).get(rid)?.state ?? "";
  const truth = world.truths.get(rid);
  const hasLater = truth?.isDiskLost || (truth && lossesOf(world, truth.payer.accountId).length > 0);
  if (hasLater && chargedByAuthQuota.has(state)) return;
  world.violate(`I9: the spool let go of ${rid}, which is not booked`);
}

/** I3: nobody is charged more than what was served costs. */
export function checkCommitted(world: World, lines: readonly Line[]): void {
  for (const { rid } of lines) {
    const truth = world.truths.get(rid);
    if (!truth) {
      world.violate(`I3: ${rid} is booked and was never asked for`);
      continue;
    }
    const charged = chargedFor(world, rid);
    if (charged > priceOf(truth)) world.violate(`I3: ${rid} is charged ${charged}, it was worth ${priceOf(truth)}`);
  }
}

function chargedFor({ ledger }: World, rid: string): bigint {
  return ledger.lines.reduce((sum, line) => (line.rid === rid ? sum - line.amountNanos : sum), 0n);
}

/** What a call may be charged in the end. */
function allowedCharges(truth: Truth): Set<bigint> {
  const atCheckpoints = [0n, ...truth.checkpoints];
  switch (truth.state) {
    case "asking":
    case "refused":
    case "released":
      return new Set([0n]);
    case "running":
      return new Set(atCheckpoints);
    // The relay died while it wrote: the record is there or it is torn.
    case "settling":
      return new Set([...atCheckpoints, priceOf(truth)]);
    case "settled": {
      const final = truth.finalNanos ?? 0n;
      return new Set(truth.isDiskLost ? [...atCheckpoints, final] : [final]);
    }
  }
}

/** Conservation: what must hold when nothing goes wrong any more and all work is done. */
export function checkAtRest(world: World): void {
  for (const truth of world.truths.values()) {
    const charged = chargedFor(world, truth.rid);
    const allowed = allowedCharges(truth);
    if (!allowed.has(charged)) {
      const words = [...allowed].join(" or ");
      world.violate(`I3: ${truth.rid} (${truth.state}) is charged ${charged}, it should be ${words}`);
    }
    if (charged < truth.acceptedNanos && lossesOf(world, truth.payer.accountId).length === 0) {
      world.violate(`I3: ${truth.rid} is charged ${charged}, its checkpoint was ${truth.acceptedNanos}`);
    }
    const isMissing = truth.hasWhole && !truth.isDiskLost && !world.ledger.calls.get(truth.rid)?.final;
    if (isMissing) world.violate(`I1: ${truth.rid} was served whole and is not booked`);
  }
  for (const [accountId, account] of world.ledger.accounts) {
    const sum = world.ledger.lines.reduce(
      (total, line) => total + (line.accountId === accountId ? line.amountNanos : 0n),
      0n,
    );
    if (sum !== account.balanceNanos) world.violate(`I1: ${accountId} has ${account.balanceNanos}, its lines ${sum}`);
    const hash = hashOf(world, accountId, `account:${accountId}`);
    const posted = hash["posted"];
    // In another generation than it was asked for in, a balance counts as not there.
    const isLoaded = hash["posted_in"] === hashOf(world, accountId, "service")["generation"];
    if (
      posted !== undefined &&
      (isLoaded || (lossesOf(world, accountId).length === 0 && hash["move"] === undefined)) &&
      BigInt(posted) !== account.balanceNanos
    ) {
      world.violate(`R5: Redis has ${posted} for ${accountId}, the ledger ${account.balanceNanos}`);
    }
    const spent = hash["spent"];
    if (spent !== undefined && isLoaded && BigInt(spent) !== account.chargedNanos) {
      world.violate(`R5: Redis has ${spent} spent for ${accountId}, the ledger ${account.chargedNanos}`);
    }
    if (BigInt(hash["held"] ?? 0) !== 0n || BigInt(hash["unposted"] ?? 0) !== 0n) {
      world.violate(`R5: ${accountId} has ${hash["held"]} held and ${hash["unposted"]} unposted at rest`);
    }
  }
  checkOverspend(world);
  checkKeysAtRest(world);
  for (const { reason, detail } of world.ledger.quarantine.values())
    world.violate(`R10: quarantine: ${reason} ${detail}`);
}
