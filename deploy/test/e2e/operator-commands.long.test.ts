import assert from "node:assert/strict";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { until } from "#shared/testing/until.ts";
import { chat, makeCall } from "./ask.ts";
import { modelOn, upstreamAt } from "./catalog.ts";
import { changing, commandLines, entryOf, readOnly } from "./operator-commands.ts";
import { openOperatorShell, relayPod } from "./operator-shell.ts";
import { sharedWorldWith } from "./shared-world.ts";

const lines = commandLines();
const world = await sharedWorldWith((fakeUrl) => ({
  upstreams: {
    "drill-circuit": upstreamAt(fakeUrl, { open_after_failures: 2 }),
    "drill-other": upstreamAt(fakeUrl),
    "drill-account": upstreamAt(fakeUrl, { cool_down: true }),
  },
  models: {
    "drill-model": modelOn("drill-circuit", {
      upstreams: [{ name: "drill-circuit" }, { name: "drill-other", priority: 2 }],
    }),
    "drill-account": modelOn("drill-account"),
  },
}));

// Of redis-cli, of an export without a file, and of a catalog that is checked elsewhere than where it is used.
const asides = /^(?:Warning: Using a password .*\n|\d+ lines\n|not here: the variable \w+ is not set\n)*$/;

describe("the commands of runbooks that only read", { concurrency: 2 }, () => {
  const owned = new AsyncDisposableStack();
  const words: Record<string, string> = { POD: relayPod };
  let shell: Awaited<ReturnType<typeof openOperatorShell>>;

  before(async () => {
    const { accountId, secret } = await world.createCustomer();
    const call = (model: string, status?: number) =>
      makeCall(world.relayUrl, secret, { side: chat, more: { model }, behaviour: status ? { status } : {} });
    for (const status of [500, 500, 500]) await call("drill-model", status);
    await call("drill-account", 401);
    const { rid } = await call("test-model");
    await world.untilBooked(accountId, rid);
    Object.assign(words, { ACCOUNT: accountId, RID: rid });
    await until("the log tells of the call", () => world.linesOf("relay").some((line) => line.includes(rid)));
    const folder = owned.use(await mkdtempDisposable(join(tmpdir(), "operator-")));
    shell = await openOperatorShell(folder.path, world);
    const catalogLine = lines.find((line) => line.endsWith(" admin catalog")) ?? "";
    await until("a relay's catalog is kept", async () => (await shell(catalogLine, words)).output !== "");
  });
  after(() => owned.disposeAsync());

  for (const line of lines) {
    const shows = entryOf(readOnly, line)?.[1];
    if (!shows) continue;
    it(line, async () => {
      const { output, errors } = await shell(line, words);
      assert.match(errors, asides);
      assert.match(output, shows);
    });
  }
});

describe("the commands of pages that change something, in their order", () => {
  const owned = new AsyncDisposableStack();
  const day = new Date().toISOString().slice(0, 10);
  const words: Record<string, string> = { POD: relayPod, USD: "0.000000001", TEXT: "drill" };
  let shell: Awaited<ReturnType<typeof openOperatorShell>>;
  let secret = "";

  before(async () => {
    const customer = await world.createCustomer();
    const { rid } = await makeCall(world.relayUrl, customer.secret, { side: chat });
    await world.untilBooked(customer.accountId, rid);
    const old = await world.createKey(customer.accountId);
    secret = customer.secret;
    Object.assign(words, { ACCOUNT: customer.accountId, KEY: customer.keyId, OLD: old.keyId, RID: rid });
    Object.assign(words, { DAY: day, TODAY: day, FILE: "catalog.yaml", BASE: "0", VERSION: "1", NAME: "ann" });
    const folder = owned.use(await mkdtempDisposable(join(tmpdir(), "operator-")));
    shell = await openOperatorShell(folder.path, world);
  });
  after(() => owned.disposeAsync());

  for (const [command, shows] of changing)
    for (const line of lines.filter((one) => command.test(one)))
      it(line, async () => {
        // What is booked has an id of its own.
        const { code, output, errors } = await shell(line, { ...words, ID: `drill-${lines.indexOf(line)}` });
        assert.equal(code, 0, errors);
        assert.match(output, shows);
      });

  it("leaves an account that is refused", async () => {
    const { status } = await makeCall(world.relayUrl, secret, { side: chat });
    assert.equal(status, 401);
  });
});
