import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { CircuitState, RelayService, type GetStateResponse } from "#proto/relay/v1/relay_pb.ts";
import { openGrpcCredentials } from "#shared/grpc/credentials.ts";
import { connectGrpc, unaryClient, type UnaryClient } from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";
import { until } from "#shared/testing/until.ts";
import { grpcFilesIn } from "../../tools/certificates/folder.ts";
import { ask, bodyOf, chat, eventsOf, makeCall, sides } from "./ask.ts";
import { catalogText, modelOn, upstreamAt } from "./catalog.ts";
import { checkRefusal, checkUntouched, rows } from "./refusal.ts";
import { startSecondRelay } from "./second-relay.ts";
import { startWorld, type Customer, type World } from "./world.ts";

/** An upstream whose streams begin at once and end when the test says so. */
async function startHeldUpstream() {
  const open: ServerResponse[] = [];
  const chunk = (delta: object, finish: string | null): string => {
    const choices = [{ index: 0, delta, finish_reason: finish }];
    const head = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "held" };
    return `data: ${JSON.stringify({ ...head, choices })}\n\n`;
  };
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(chunk({ role: "assistant", content: "before" }, null));
    open.push(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    finish: () => {
      for (const response of open) response.end(`${chunk({ content: " after" }, "stop")}data: [DONE]\n\n`);
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

describe("API spec, Cases: Service stopped or busy (maintenance) by the operators' switch", () => {
  const resources = new AsyncDisposableStack();
  let world: World;
  let held: Awaited<ReturnType<typeof startHeldUpstream>>;
  let customer: Customer;
  /** The stack's relay, which has served calls, and one that nobody has called. */
  let busyUrl: string;
  let idleUrl: string;
  before(async () => {
    held = await startHeldUpstream();
    resources.defer(held.close);
    world = resources.use(
      await startWorld({
        catalog: (fakeUrl) =>
          catalogText({
            upstreams: { fake: upstreamAt(fakeUrl), held: upstreamAt(held.url) },
            models: { "test-model": modelOn("fake"), held: modelOn("held") },
          }),
      }),
    );
    const second = resources.use(await startSecondRelay(world, join(dirname(world.stack.catalogFile), "second-spool")));
    [busyUrl, idleUrl] = [world.relayUrl, second.url];
    customer = await world.createCustomer();
  });
  after(() => resources.disposeAsync());

  /** Whether a relay is closed, found out without making it ask auth-quota: no key, and a path that nobody serves. */
  const isClosed = async (url: string): Promise<boolean> =>
    (await fetch(`${url}/v1/nothing`).then(async (answer) => [await answer.text(), answer.status])).at(1) === 503;
  const untilBoth = (wanted: boolean): Promise<boolean> =>
    until(`both relays are ${wanted ? "closed" : "open"}`, async () => {
      const found = await Promise.all([busyUrl, idleUrl].map(isClosed));
      return found.every((isOne) => isOne === wanted);
    });
  /** Asks the stack's relay as the console does. */
  const askRelay = async <T>(work: (relay: UnaryClient<typeof RelayService>) => Promise<T>): Promise<T> => {
    using credentials = openGrpcCredentials(grpcFilesIn(world.stack.tlsFolder, "console"), createLog("test", "silent"));
    using channel = connectGrpc(world.stack.addresses.relayAddress, credentials, "relay");
    return await work(unaryClient(RelayService, channel, 20_000));
  };
  /** What it tells of itself. */
  const relayState = (): Promise<GetStateResponse> => askRelay((relay) => relay.getState({}));
  const call = (url: string) => makeCall(url, customer.secret, { side: chat });

  test("operators are told the catalog in force, what is wrong with another, and if an upstream answers", async () => {
    const { text } = await askRelay((relay) => relay.getCatalogFile({}));
    assert.equal(text, await readFile(world.stack.catalogFile, "utf8"));
    const { problems, unsetVariables, catalog } = await askRelay((relay) => relay.checkCatalog({ text }));
    assert.deepEqual([problems, unsetVariables], [[], []]);
    assert.deepEqual(
      catalog?.models.map(({ name }) => name),
      ["test-model", "held"],
    );
    const wrong = await askRelay((relay) => relay.checkCatalog({ text: text.replace("{", '{"odd": 1,') }));
    assert.match(wrong.problems[0]?.reason ?? "", /odd is not a known field/);
    const { status, problem, usage } = await askRelay((relay) =>
      relay.testUpstream({ upstream: "fake", model: "test-model" }),
    );
    assert.deepEqual([status, problem], [200, ""]);
    assert.ok((usage?.inputTokens ?? 0n) > 0n);
  });

  test("| 503 | `The service is temporarily unavailable, please try again later`, a relay in use and an idle one, Retry-After 5, then they serve again", async () => {
    const served = await call(busyUrl);
    assert.equal(served.status, 200, served.text);
    await world.untilBooked(customer.accountId, served.rid);
    await world.authQuota.setMaintenance({ isMaintenance: true });
    await untilBoth(true);
    await checkUntouched(world, customer, async () => {
      for (const url of [busyUrl, idleUrl]) {
        for (const side of sides) {
          const reply = await makeCall(url, customer.secret, { side });
          checkRefusal(side, reply, rows.serviceUnavailable);
        }
        const headers = chat.headers(customer.secret);
        checkRefusal(chat, await ask(`${url}/v1/models`, { method: "GET", headers }), rows.serviceUnavailable);
        const video = await ask(`${url}/v1/videos`, { headers, body: JSON.stringify({ prompt: "a" }) });
        assert.equal(video.status, 503, video.text);
      }
    });
    const cause = '"cause":"maintenance"';
    // The relay writes its log in pieces.
    await until("the log tells the cause", async () => world.linesOf("relay").some((line) => line.includes(cause)));
    await world.authQuota.setMaintenance({ isMaintenance: false });
    await untilBoth(false);
    for (const url of [busyUrl, idleUrl]) {
      const reply = await call(url);
      assert.equal(reply.status, 200, reply.text);
      await world.untilBooked(customer.accountId, reply.rid);
    }
  });

  test("a stream that began before goes on to its end", async () => {
    const body = bodyOf({ side: chat, model: "held", isStream: true });
    const headers = chat.headers(customer.secret);
    const running = await fetch(`${busyUrl}${chat.path}`, { method: "POST", headers, body });
    assert.equal(running.status, 200);
    await world.authQuota.setMaintenance({ isMaintenance: true });
    await untilBoth(true);
    held.finish();
    const events = eventsOf(await running.text());
    assert.match(events.join(""), /before.* after/);
    assert.equal(events.at(-1), "[DONE]");
    await world.authQuota.setMaintenance({ isMaintenance: false });
    await untilBoth(false);
  });

  test("a relay process tells its state: its catalog by the file's hash, its models, its upstreams", async () => {
    const { catalog, notReady, isDraining, relaySession } = await relayState();
    assert.deepEqual([notReady, isDraining], [[], false]);
    assert.match(relaySession, /^[0-9a-f-]{36}$/);
    assert.equal(catalog?.contentHash, hash("sha256", await readFile(world.stack.catalogFile)));
    assert.deepEqual(
      catalog.models.map(({ name, routes }) => [name, routes[0]?.upstream]),
      [
        ["test-model", "fake"],
        ["held", "held"],
      ],
    );
    assert.deepEqual(
      catalog.upstreams.map(({ name, baseUrl, circuit, maxCalls }) => [name, baseUrl, circuit, maxCalls]),
      [
        ["fake", `${world.fake.url}/`, CircuitState.CLOSED, 1_280],
        ["held", `${held.url}/`, CircuitState.CLOSED, 1_280],
      ],
    );
  });

  test("while auth-quota is down a closed relay stays closed, and it is opened once auth-quota is back", async () => {
    const { authQuota } = world.stack.services;
    await world.authQuota.setMaintenance({ isMaintenance: true });
    await untilBoth(true);
    await authQuota.kill();
    const hasLost = async (): Promise<boolean> => (await relayState()).notReady.includes("auth-quota is not connected");
    await until("the relay has lost auth-quota", hasLost);
    // Callers shall hear of it from the relay.
    assert.equal((await fetch(`${world.stack.addresses.opsUrls.relay}/readyz`)).status, 200);
    assert.deepEqual(await Promise.all([busyUrl, idleUrl].map(isClosed)), [true, true]);
    await authQuota.restart();
    await until("the relay has found auth-quota", async () => !(await hasLost()));
    assert.deepEqual(await Promise.all([busyUrl, idleUrl].map(isClosed)), [true, true]);
    await until("it can be set", () => world.authQuota.setMaintenance({ isMaintenance: false }));
    await untilBoth(false);
    assert.equal((await call(idleUrl)).status, 200);
  });
});
