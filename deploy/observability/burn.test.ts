import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { findTool } from "#shared/testing/binaries.ts";
import { behaviourText, type Behaviour } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { ask, chat, type Reply } from "../test/e2e/ask.ts";
import { startWorld, type Customer, type World } from "../test/e2e/world.ts";
import { withoutVariables } from "./read-promql.ts";
import { startPrometheus, type LiveAlert, type Prometheus, type Sample } from "./testing/prometheus.ts";
import { dashboardQueries, filesOf, folder } from "./written.ts";

const binary = findTool("prometheus") ?? "";
const skip = binary ? false : "prometheus is not installed";

// Panels of what a few calls and a failing upstream do not bring about; the console does not run here.
const didNotHappen = new RegExp(
  [
    "^console[.]json",
    "^(relay|video-task)[.]json: (Calls|Time) of methods",
    "Contradictions|Certificates|cap of series|Failures by relay|fields that were dropped|Garbage collection",
    "Callers who left|Broken by|Cut by|Cut for|Failovers|Passed over|Left alone|do not add up|without a price",
    "Models without a route|WebSockets|Submissions by outcome|Tasks that ended|Questions that providers",
  ].join("|"),
);

describe("a real Prometheus on the running system", { skip }, () => {
  let world: World;
  let prometheus: Prometheus;
  let customer: Customer;
  const owned = new AsyncDisposableStack();

  const call = (behaviour: Behaviour, isStream = false): Promise<Reply> => {
    const content = behaviourText(behaviour, "Say hello");
    const body = JSON.stringify({ model: "test-model", stream: isStream, messages: [{ role: "user", content }] });
    return ask(`${world.relayUrl}${chat.path}`, { headers: chat.headers(customer.secret), body });
  };
  const calls = async (count: number, behaviour: Behaviour): Promise<number[]> =>
    (await Promise.all(Array.from({ length: count }, () => call(behaviour)))).map(({ status }) => status);
  /** The count of calls with this outcome, as Prometheus knows it. */
  const counted = async (outcome: string): Promise<number> => {
    const [sum] = await prometheus.query(`sum(relay_calls_total{outcome="${outcome}"})`);
    return Number(sum?.value[1] ?? 0);
  };
  const fastest = async (alert: string): Promise<LiveAlert | undefined> =>
    (await prometheus.alerts()).find(({ labels }) => labels["alertname"] === alert && labels["long_window"] === "1h");
  const untilTold = (alert: string): Promise<LiveAlert> =>
    until(`${alert} is told`, async () => (await fastest(alert)) ?? Promise.reject(new Error("not yet")), 20_000);

  before(async () => {
    world = owned.use(await startWorld({ serviceEnvironment: { billing: { RECONCILE_MS: "1000" } } }));
    const targets = Object.values(world.stack.addresses.opsUrls).map((url) => new URL(url).host);
    const rules = filesOf("rules", ".yaml").map((file) => join(folder, "rules", file));
    [prometheus, customer] = await Promise.all([
      startPrometheus({ binary, targets, rules }).then((started) => owned.use(started)),
      world.createCustomer(),
    ]);
    await until("all are scraped", async () => (await prometheus.query("up == 1")).length === targets.length);
    // The first call of its sort makes its series; only what follows it is an increase.
    await Promise.all([call({ text: "hello" }), call({ text: "hello" }, true)]);
    await until("it is scraped", async () => (await counted("ok")) === 2);
  });
  after(() => owned.disposeAsync());

  it("moves the callers' burn alert, and not the gateway's, when the upstream fails", async () => {
    await calls(1, { status: 500 });
    await until("a failure is scraped", async () => (await counted("upstream_error")) > 0);
    assert.deepEqual(new Set(await calls(15, { status: 500 })), new Set([500]));
    const alert = await untilTold("RelayCallerAvailabilityBurn");
    assert.equal(alert.state, "pending");
    assert.equal(alert.labels["severity"], "page");
    assert.match(alert.annotations["description"] ?? "", /^[\d.]+% of the last 1h's calls failed/);
    assert.equal(await fastest("RelayAvailabilityBurn"), undefined);
  });

  it("answers every query of every dashboard, with numbers where something has happened", async () => {
    await Promise.all([call({ text: "hello there" }), call({ text: "hello there" }, true)]);
    const queries = dashboardQueries();
    assert.ok(queries.length > 100);
    for (const { where, expr } of queries) {
      const found = (): Promise<Sample[]> => prometheus.query(withoutVariables(expr));
      if (didNotHappen.test(where)) await found();
      else await until(where, async () => (await found()).length > 0);
    }
  });

  it("moves the gateway's own burn alert when its calls fail because auth-quota is away", async () => {
    await world.stack.services.authQuota.kill();
    await until("a refusal is scraped", async () => {
      await call({ text: "hello" });
      return (await counted("gateway_error")) > 0;
    });
    assert.deepEqual(new Set(await calls(15, { text: "hello" })), new Set([503]));
    const alert = await untilTold("RelayAvailabilityBurn");
    assert.equal(alert.state, "pending");
  });
});
