import type { SourcePatch } from "#shared/testing/patch-source.ts";
import { clocks, network, quiet, redisLoss, silence } from "./profile.ts";

/** A rule of the money path, broken on purpose, as patches of the sources. The simulation must see it. */
export type Mutation = {
  name: string;
  patches: SourcePatch[];
  /** The profile of the worlds that show it soonest, where it shows in few of all. */
  profile?: string;
  /** The first seed that is run, one that shows it or shortly before it, where those before do not; left out: 1. */
  from?: number;
};

const script = "auth-quota/store/script.lua";

const one = (name: string, file: string, find: string, replace: string): Mutation => ({
  name,
  patches: [{ file, find, replace }],
});

const startingAt = (from: number, mutation: Mutation): Mutation => ({ ...mutation, from });
const seenIn = (profile: string, from: number, mutation: Mutation): Mutation => ({ ...mutation, profile, from });

export const mutations: Mutation[] = [
  one(
    "no idempotence: a charge told twice counts twice",
    script,
    "    return call.final == cost and verdicts.OK or verdicts.CONFLICT\n",
    "    moveSums({ account = accountId, key = keyId }, 0, cost, 0, 0)\n    return verdicts.OK\n",
  ),
  startingAt(
    11,
    one(
      "expiry releases the hold instead of charging the checkpoint",
      script,
      "local amount = math.max(call.checkpoint, call.booked)",
      "local amount = 0",
    ),
  ),
  one(
    "a message is acknowledged before it is booked",
    "billing/intake/consume.ts",
    "  const posting = await bookUntilDone(deps, batch, stop);\n",
    "  for (const { message } of batch) answer(() => message.ack());\n" +
      "  const posting = await bookUntilDone(deps, batch, stop);\n",
  ),
  one(
    "a balance is added to instead of replaced by a newer version",
    script,
    "if not knownVersion or tonumber(version) > knownVersion then",
    "sum = int(found[field] + tonumber(sum) - (found[field] > 0 and 1 or 0))\n  if true then",
  ),
  startingAt(
    11,
    one(
      "an older version of a balance replaces a newer one",
      script,
      "if not knownVersion or tonumber(version) > knownVersion then",
      "if true then",
    ),
  ),
  one(
    "fail open: no decision counts as a yes",
    "relay/charge/admit.ts",
    "    case Verdict.OK:\n      return undefined;\n",
    "    case Verdict.OK:\n    case Verdict.UNAVAILABLE:\n      return undefined;\n",
  ),
  one(
    "the spool lets go of what is charged and not booked",
    "relay/charge/settle.ts",
    "if (state === CallState.POSTED) {\n",
    "if (state === CallState.POSTED || state === CallState.SETTLED) {\n",
  ),
  seenIn(
    silence,
    3_260,
    one(
      "a provisional charge that comes after the final one is booked again",
      "billing/records/plan.ts",
      '  if (!isFinal) return "superseded";\n',
      "  const kind = LineKind.PROVISIONAL_CHARGE;\n" +
        "  if (!isFinal) return { kind, chargedNanos: event.costNanos, units, isLowered: false };\n",
    ),
  ),
  seenIn(
    silence,
    120,
    one(
      "a final charge is booked beside the provisional one instead of raising it",
      "billing/records/plan.ts",
      "const raiseNanos = event.costNanos - call.chargedNanos;",
      "const raiseNanos = event.costNanos;",
    ),
  ),
  startingAt(
    49,
    one(
      "the spool forgets what a dead relay left",
      "relay/charge/replay-spool.ts",
      "    await Promise.all(charges.map(({ charge, record }) => forward(settling, charge, record)));\n",
      "    for (const bytes of records) spool.confirm(fromBinary(UsageRecordedSchema, bytes).rid);\n",
    ),
  ),
  {
    name: "calls leave what is not booked before the balance is written",
    from: 45,
    patches: [
      {
        file: "auth-quota/handlers/post.ts",
        find: "  for (const chunk of chunks(owned)) {\n",
        replace:
          "  const posts = owned.filter(({ operation: [name] }) => name === 'post');\n" +
          "  const sums = owned.filter(({ operation: [name] }) => name !== 'post');\n" +
          "  for (const chunk of [...chunks(posts), ...chunks(sums)]) {\n",
      },
    ],
  },
  startingAt(
    4,
    one(
      "money is held without looking whether it is there",
      script,
      "local function available(accountId)\n  local found = account(accountId)\n",
      "local function available(accountId)\n" +
        "  local found = account(accountId)\n  if true then return found.posted end\n",
    ),
  ),
  startingAt(
    28,
    one(
      "the limit of an account is not looked at",
      script,
      "found.limit and math.min(found.posted, found.limit - found.spent) or found.posted",
      "found.posted",
    ),
  ),
  one(
    "what an account has spent stays as it was first told",
    script,
    "if spent ~= '' and (not found.spentVersion or tonumber(version) > found.spentVersion) then",
    "if spent ~= '' and not found.spentVersion then",
  ),
  one(
    "calls under way are counted and not limited",
    script,
    "if payer.open >= mostConcurrent(payer) or (used.maxConcurrent > 0 and used.open >= used.maxConcurrent) then",
    "if payer.open > 100 then",
  ),
  one(
    "a call that ends stays among those under way of its key",
    script,
    "math.min(used.open + open, payer.open)",
    "used.open + math.max(open, 0)",
  ),
  seenIn(
    redisLoss,
    50,
    one(
      "no recovery lock: a Redis that has lost everything grants at once",
      script,
      "if isGateClosed then\n    field, value",
      "if false then\n    field, value",
    ),
  ),
  seenIn(
    redisLoss,
    140,
    one(
      "no restore: holds that Redis has lost are not told again",
      "relay/charge/restore.ts",
      '    void settling.quota.tell({ operation: { case: "restore", value } });\n',
      "    void value;\n",
    ),
  ),
  seenIn(
    redisLoss,
    840,
    one(
      "the loss of the last moments is not noticed",
      script,
      "generation < doneIn or (generation == doneIn and seen < done)",
      "false",
    ),
  ),
  seenIn(
    clocks,
    125,
    one(
      "what a clock that was ahead has counted of a rate is waited out",
      script,
      "if arrivalUs > nowUs + burstUs then",
      "if false then",
    ),
  ),
  startingAt(
    87,
    one(
      "a call that outlasts its lease is not told of",
      "relay/leased-call.ts",
      "  if (call?.lease.open.delete(call)) draw(call);\n",
      "  call?.lease.open.delete(call);\n",
    ),
  ),
  startingAt(
    51,
    one(
      "a charge within a lease that is told again counts again",
      script,
      "        return sum == costText and verdicts.OK or verdicts.CONFLICT\n",
      "        addTo(book, accountId, keyId, cost, 0, 0)\n        return verdicts.OK\n",
    ),
  ),
  startingAt(
    15,
    one(
      "a charge within a lease that is booked stays owed",
      script,
      "      addTo(book, accountId, keyId, 0, cost, -1)\n",
      "      addTo(book, accountId, keyId, 0, 0, -1)\n",
    ),
  ),
  startingAt(
    15,
    one(
      "a charge within a lease does not wait for its booking",
      script,
      "      addTo(book, accountId, keyId, cost, 0, 1)\n",
      "      addTo(book, accountId, keyId, cost, cost, 1)\n",
    ),
  ),
  startingAt(
    29,
    one(
      "what is held for a call within a lease is given to others in full when it ends",
      "relay/leased-call.ts",
      "  lease.leftNanos += heldNanos - costNanos;\n",
      "  lease.leftNanos += heldNanos;\n",
    ),
  ),
  startingAt(
    87,
    one(
      "a lease ends without its open calls",
      "relay/leased-call.ts",
      "  for (const call of lease.open) leaveLease(call);\n",
      "",
    ),
  ),
  {
    name: "a lease is used after its end",
    profile: network,
    from: 820,
    patches: [
      { file: "relay/charge/leases.ts", find: "    nowMs < lease.endsAtMs &&\n", replace: "" },
      { file: "relay/charge/leases.ts", find: "(nowMs >= lease.endsAtMs || ", replace: "(" },
    ],
  },
  seenIn(
    silence,
    520,
    one(
      "leases last until their relay counts as silent, and longer",
      "auth-quota/session/operations.ts",
      "Math.min(mostLeaseMs, relaySilentMs, rebuildMs)",
      "3 * mostLeaseMs + 0 * Math.min(relaySilentMs, rebuildMs)",
    ),
  ),
  startingAt(
    3,
    one(
      "a lease that is given back is not ended",
      script,
      "  lease.state, lease.isExpired = 'released', true\n",
      "  lease.isExpired = true\n",
    ),
  ),
  startingAt(
    3,
    one(
      "what is left of a lease is given back twice",
      script,
      "  setLeases(payer, without(payer.leases, rid))\n  change(rid, lease)\n",
      "  setLeases(payer, without(payer.leases, rid))\n" +
        "  payer.held = payer.held - lease.held\n  change(rid, lease)\n",
    ),
  ),
  seenIn(
    quiet,
    90,
    one(
      "calls of a lease are not counted in the rate of their account",
      script,
      "    payer.arrivalUs = arrivalUs + calls * stepUs\n",
      "    payer.arrivalUs = arrivalUs\n",
    ),
  ),
  seenIn(
    quiet,
    325,
    one(
      "the leases of a key that is stopped are not asked back",
      script,
      "    recallLeases(accountId)\n    return verdicts.OK\n",
      "    return verdicts.OK\n",
    ),
  ),
  seenIn(
    clocks,
    70,
    one(
      "calls are refused for what leases leave unused",
      script,
      "    return not isOfKey and recallLeases(accountId) and verdicts.RECALLED or verdict\n",
      "    return verdict\n",
    ),
  ),
  startingAt(
    11,
    one(
      "leases are granted without looking at what is held",
      script,
      "  local function shareOfMoney(accountId, used)\n    local room = available(accountId)\n",
      "  local function shareOfMoney(accountId, used)\n    local room = account(accountId).posted * leaseShare\n",
    ),
  ),
  one(
    "nobody looks at charges that stay unconfirmed",
    "billing/intake/outbox.ts",
    "    const found = await sort(deps, records);",
    "    const found = await sort(deps, records.slice(records.length));",
  ),
  startingAt(
    8,
    one(
      "an account is taken in while another shard still holds money of it",
      "auth-quota/hot/moves.ts",
      "  if (left.some((code) => code !== Verdict.OK)) return;\n",
      "",
    ),
  ),
  startingAt(
    8,
    one(
      "an account leaves while calls of it are under way",
      script,
      "    if left > 0 or found.held ~= 0 or found.unposted ~= 0 or found.leases ~= '' then\n",
      "    if false then\n",
    ),
  ),
  startingAt(28, {
    name: "a shard goes on granting to an account that has left it",
    patches: [
      { file: script, find: "return id ~= '' and account(id).moved == 'gone'", replace: "return false" },
      {
        file: script,
        find: "  if account(accountId).moved then\n    return verdicts.MOVED\n",
        replace: "  if false then\n",
      },
    ],
  }),
  startingAt(
    1_728,
    one(
      "an account that comes back has the balance of before",
      script,
      "    found.moved, found.move, found.isLoaded, found.version = nil, number, false, nil\n",
      "    redis.call('HSET', name, 'posted_in', service.generation)\n    found.moved, found.move = nil, number\n",
    ),
  ),
  startingAt(
    2_458,
    one(
      "a shard that has lost its data does not know who has left it",
      "auth-quota/hot/rebuild.ts",
      "  await moves.markAgain(hot);\n",
      "",
    ),
  ),
];
