import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { query } from "#shared/testing/postgres.ts";
import { grpcFilesIn } from "../../tools/certificates/folder.ts";
import { runCommand } from "../../tools/admin/program.ts";
import { chat, makeCall, messages, sides } from "./ask.ts";
import { startWorld, type World } from "./world.ts";

async function admin({ stack }: World, ...words: string[]): Promise<{ code: number; answer: string }> {
  const ended = { code: -1, answer: "" };
  const { authQuotaAddress, billingAddress } = stack.addresses;
  ended.code = await runCommand(words, {
    environment: {
      ...grpcFilesIn(stack.tlsFolder, "admin"),
      AUTH_QUOTA_ADDRESS: authQuotaAddress,
      BILLING_ADDRESS: billingAddress,
    },
    addressesFile: "none",
    output: { answer: (text) => void (ended.answer += text), aside: (text) => void (ended.answer += text) },
  });
  return ended;
}

test("after calls that ended in every way the books of the whole system agree to the nano-dollar", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "reconcile-"));
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const [secretFile, publicFile] = [join(folder.path, "secret.pem"), join(folder.path, "public.pem")];
  await writeFile(secretFile, privateKey.export({ type: "pkcs8", format: "pem" }));
  await writeFile(publicFile, publicKey.export({ type: "spki", format: "pem" }));
  await using world = await startWorld({ serviceEnvironment: { billing: { RECONCILE_SIGNING_KEY_FILE: secretFile } } });
  const customer = await world.createCustomer();
  const ask = (call: Partial<Parameters<typeof makeCall>[2]>) =>
    makeCall(world.relayUrl, customer.secret, { side: chat, ...call });
  await Promise.all(sides.flatMap((side) => [true, false].map((isStream) => ask({ side, isStream }))));
  await ask({ side: messages, isStream: true, behaviour: { fault: { kind: "reset", afterChunks: 2 } } }).catch(
    () => undefined,
  );
  assert.notEqual((await ask({ behaviour: { status: 500 } })).status, 200);
  await world.untilSettled(customer.accountId, 6);

  const day = new Date().toISOString().slice(0, 10);
  const right = await admin(world, "reconcile", "--day", day);
  assert.equal(right.code, 0, right.answer);
  assert.match(right.answer, /^unexplained difference in USD +0\.000000000$/m);
  assert.match(right.answer, /^R4 .* right .* 6 events on the stream/m);
  const kept = await admin(world, "report", day, "--verify", publicFile);
  assert.equal(kept.code, 0, kept.answer);
  assert.match(kept.answer, /^signature +valid, by the key sha256:/m);

  // The owner can do what no service can; the books say so all the same, and say which account.
  await query(
    world.stack.stores.urls.postgres,
    `UPDATE billing.account SET balance_nanos = balance_nanos + 1 WHERE account_id = '${customer.accountId}'`,
  );
  const wrong = await admin(world, "reconcile", "--day", day);
  assert.equal(wrong.code, 1, wrong.answer);
  assert.match(wrong.answer, new RegExp(`^R1:\\n {2}account ${customer.accountId}: kept `, "m"));
  assert.match(wrong.answer, /^unexplained difference in USD +0\.00000000[12]$/m);
});
