import assert from "node:assert/strict";
import { test } from "node:test";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { key, open, refused, start } from "../testing/realtime-client.ts";
import type { Refusal } from "./refusals.ts";

type Noted = Refusal & { keyId: string };

/** A relay whose auth-quota knows the key and says `verdict`, with what owners of keys are told of. */
async function startNoting(verdict: Verdict) {
  const relay = await start({}, { answer: () => ({ verdict, accountId: "acct_1", keyId: "key_1" }) });
  const noted: Noted[] = [];
  relay.relay.refusals = {
    note: ({ keyId }, refusal) => void noted.push({ ...refusal, keyId }),
    report: () => Promise.resolve(),
  };
  const told = () =>
    noted.map(({ keyId, failure, status, endpoint }) => [keyId, failure.name, status, endpoint].join(" "));
  return { relay, told };
}

test("owners are told of lists of models, client secrets and sockets that are refused", async () => {
  const { relay, told } = await startNoting(Verdict.KEY_INVALID);
  const post = { method: "POST", headers: { ...key, "content-type": "application/json" }, body: "{}" };
  assert.equal((await fetch(`${relay.url}/v1/models`, { headers: key })).status, 401);
  assert.equal((await fetch(`${relay.url}/v1/models/m`, { headers: key })).status, 401);
  assert.equal((await fetch(`${relay.url}/v1/realtime/client_secrets`, post)).status, 401);
  assert.equal((await refused(relay))[0], 401);
  assert.deepEqual(told(), [
    "key_1 key_invalid 401 /v1/models",
    "key_1 key_invalid 401 /v1/models",
    "key_1 key_invalid 401 /v1/realtime/client_secrets",
    "key_1 key_invalid 401 /v1/realtime",
  ]);
});

test("they are told of wrong fields and models there, but not of what is the service's own fault", async () => {
  const { relay, told } = await startNoting(Verdict.OK);
  const post = { method: "POST", headers: { ...key, "content-type": "application/json" }, body: "{}" };
  assert.equal((await fetch(`${relay.url}/v1/realtime/client_secrets`, post)).status, 400);
  assert.equal((await refused(relay, { model: "nothing" }))[0], 503);
  assert.deepEqual(told(), [
    "key_1 field_required 400 /v1/realtime/client_secrets",
    "key_1 model_unavailable 503 /v1/realtime",
  ]);
  relay.relay.isDraining = true;
  assert.equal((await refused(relay))[0], 503);
  assert.equal(told().length, 2);
});

test("events of a session that are refused", async () => {
  const { relay, told } = await startNoting(Verdict.OK);
  const session = await open(relay);
  session.send({ type: "nothing.known" });
  await session.find("error");
  assert.deepEqual(told(), ["key_1 field_invalid 400 /v1/realtime"]);
});
