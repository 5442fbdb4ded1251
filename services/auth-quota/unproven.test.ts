import assert from "node:assert/strict";
import { after, test } from "node:test";
import { v7 } from "uuid";
import { Verdict, type Result } from "#proto/authquota/v1/authquota_pb.ts";
import { holdSecret, readProofKeys, withProof } from "#shared/money/hold-proof.ts";
import { holdProofKeys } from "#shared/testing/proof-keys.ts";
import { startAppWorld, type Payer } from "./testing/app-world.ts";
import type { RelayLine } from "./testing/relay-line.ts";

const world = await startAppWorld();
after(() => world[Symbol.asyncDispose]());

const record = Buffer.from("a usage record");

const reserveOf = ({ keyHash }: Payer, rid: string, estimateNanos: bigint) =>
  ({ case: "reserve", value: { rid, keyHash, ip: "", model: "m", estimateNanos } }) as const;
const settleOf = ({ accountId, keyId }: Payer, rid: string, costNanos: bigint) =>
  ({ case: "settle", value: { rid, accountId, keyId, costNanos, record } }) as const;

const verdictsOf = (results: Result[]): Verdict[] => results.map(({ verdict }) => verdict);

async function verdictOf(line: RelayLine, operation: Parameters<RelayLine["send"]>[0][number]): Promise<Verdict> {
  return verdictsOf(await line.send([operation]))[0] ?? Verdict.UNSPECIFIED;
}

test("stolen: the relay's certificate: what it tells of a hold that it cannot prove changes nothing", async () => {
  const [payer, victim] = [await world.createPayer(1_000n), await world.createPayer(1_000n)];
  using relay = world.first.openLine("relay_right");
  using thief = world.first.openLine("relay_stolen");
  const [rid, forged] = [v7(), v7()];
  const [reserved] = await relay.send([reserveOf(payer, rid, 300n)]);
  const secret = reserved?.holdSecret ?? assert.fail();
  const { accountId, keyId } = victim;
  const restored = { rid: forged, accountId, keyId, heldNanos: 500n, costNanos: 0n, record: new Uint8Array() };
  const proven = { ...settleOf(payer, rid, 70n).value, record: Buffer.from(withProof(secret, record)) };
  const told = await thief.send([
    { case: "settle", value: { ...settleOf(victim, forged, 900n).value } },
    // A real proof, of another account.
    { case: "settle", value: { ...proven, rid: forged, accountId, keyId } },
    { case: "restore", value: restored },
    { case: "restore", value: { ...restored, costNanos: 1n, record: proven.record, holdSecret: secret } },
    settleOf(payer, rid, 299n),
    { case: "extend", value: { rid, totalNanos: 1_000n, leastNanos: 0n } },
    { case: "checkpoint", value: { rid, costNanos: 299n, record } },
    { case: "release", value: { rid } },
  ]);
  const { CONFLICT, NO_HOLD } = Verdict;
  const expected = [CONFLICT, CONFLICT, CONFLICT, CONFLICT, CONFLICT, NO_HOLD, NO_HOLD, NO_HOLD];
  assert.deepEqual(verdictsOf(told), expected);
  const ofVictim = await world.first.admin.getHolds({ accountId });
  assert.deepEqual([ofVictim.heldNanos, ofVictim.unpostedNanos], [0n, 0n]);
  const ofPayer = await world.first.admin.getHolds({ accountId: payer.accountId });
  assert.deepEqual([ofPayer.heldNanos, ofPayer.unpostedNanos], [300n, 0n]);
  // The same relay after a restart is another session, and has the record in its spool.
  using restarted = world.first.openLine("relay_restarted");
  assert.equal(await verdictOf(restarted, { case: "settle", value: proven }), Verdict.OK);
  assert.equal(await verdictOf(relay, { case: "settle", value: proven }), Verdict.OK);
  const ended = await world.first.admin.getHolds({ accountId: payer.accountId });
  assert.deepEqual([ended.heldNanos, ended.unpostedNanos], [0n, 70n]);
  const own = { rid: forged, accountId: payer.accountId, keyId: payer.keyId };
  const [proofKey] = readProofKeys(holdProofKeys);
  const granted = { ...restored, ...own, heldNanos: 5n, holdSecret: holdSecret(proofKey, own) };
  assert.equal(await verdictOf(relay, { case: "restore", value: granted }), Verdict.OK);
});
