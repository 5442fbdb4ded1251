import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { after, describe, test } from "node:test";
import { findTool } from "#shared/testing/binaries.ts";
import { until } from "#shared/testing/until.ts";
import { chat, makeCall, ridOf } from "../test/e2e/ask.ts";
import { startWorld } from "../test/e2e/world.ts";
import { catalogue } from "./catalogue.ts";

const promtool = findTool("promtool");
const world = await startWorld({ console: {} });
after(() => world[Symbol.asyncDispose]());
const { catalogFile, addresses } = world.stack;
const state: { ports: Record<string, number> } = JSON.parse(
  await readFile(join(dirname(catalogFile), "seed.json"), "utf8"),
);
const opsUrls: Record<string, string> = {
  ...addresses.opsUrls,
  console: `http://127.0.0.1:${state.ports["console-ops"]}`,
};

const scrape = async (service: string, accept = "text/plain"): Promise<string> =>
  (await fetch(`${opsUrls[service]}/metrics`, { headers: { accept } })).text();

/** What promtool says of a scrape: nothing, when all is as it should be. */
async function lint(program: string, text: string): Promise<string> {
  const child = spawn(program, ["check", "metrics"], { stdio: ["pipe", "pipe", "pipe"] });
  let said = "";
  for (const output of [child.stdout, child.stderr]) output.on("data", (data) => (said += String(data)));
  child.stdin.end(text);
  await once(child, "close");
  return said;
}

const namesIn = (text: string): string[] => [...text.matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => name ?? "");

const customer = await world.createCustomer();
for (const isStream of [false, true]) {
  const reply = await makeCall(world.relayUrl, customer.secret, { side: chat, isStream });
  await world.untilBooked(customer.accountId, ridOf(reply));
}

for (const service of Object.keys(opsUrls)) {
  describe(service, () => {
    test("promtool has nothing against its metrics", { skip: !promtool && "promtool is not installed" }, async () => {
      assert.equal(await lint(promtool ?? "", await scrape(service)), "");
    });

    test("it has the metrics of the catalogue, and no other", async () => {
      const known = catalogue().filter((metric) => metric.service === service);
      const names = known.map(({ name }) => name);
      assert.deepEqual(namesIn(await scrape(service)).toSorted(), names.toSorted());
    });
  });
}

test("a call and a stream are counted, timed by phase, and over", async () => {
  await until("the stream is over", async () => /^relay_live_streams\{[^}]*\} 0$/m.test(await scrape("relay")));
  const text = await scrape("relay", "application/openmetrics-text; version=1.0.0");
  for (const sample of [
    /^relay_calls_total\{endpoint="\/v1\/chat\/completions",status="200",end="complete",outcome="ok",[^}]*\} 2$/m,
    /^relay_model_calls_total\{[^}]*outcome="ok"[^}]*\} 2$/m,
    /^relay_added_latency_seconds_count\{endpoint="\/v1\/chat\/completions",[^}]*\} 2$/m,
    /^relay_overhead_seconds_count\{phase="first_byte",[^}]*\} 2$/m,
    /^relay_overhead_seconds_count\{phase="settle",[^}]*\} 2$/m,
    /^relay_time_to_first_byte_seconds_count\{endpoint="[^"]*",streamed="true",[^}]*\} 1$/m,
    /^relay_time_to_first_byte_seconds_count\{endpoint="[^"]*",streamed="false",[^}]*\} 1$/m,
    /^relay_stream_ends_total\{[^}]*reason="complete"[^}]*\} 1$/m,
    /^relay_stream_bytes_total\{[^}]*\} [1-9]/m,
    /^relay_hold_seconds_count\{outcome="charged",[^}]*\} 2$/m,
    /^relay_quota_connected\{[^}]*\} 1$/m,
    /^# EOF\n$/m,
  ]) {
    assert.match(text, sample);
  }
  assert.match(
    await scrape("billing"),
    /^grpc_server_duration_seconds_count\{method="[^"]*Credit",code="OK",[^}]*\} [1-9]/m,
  );
  assert.match(await scrape("auth-quota"), /^auth_quota_sessions\{[^}]*\} 1$/m);
});
