import assert from "node:assert/strict";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { consumerName } from "../../../services/billing/intake/stream.ts";
import { usageStream } from "../../../services/shared/stores/usage-stream.ts";
import { catalogue } from "../../observability/catalogue.ts";
import { startApiServer } from "./api-server.ts";
import { cannotRunHelm, chartFolder, render, upgrade, valueSets } from "./helm.ts";
import { ofKind } from "./objects.ts";
import type { Tree } from "./values-file.ts";

type Autoscaler = { metrics: { pods?: { metric: { name: string } } }[] };
type ScaledObject = { triggers: { type: string; metadata: Record<string, string> }[] };

test("what scales asks for a gauge of the relay, and for billing's stream", { skip: cannotRunHelm }, async () => {
  const rendered = valueSets().map(({ file, sets }) => render(file, sets));
  const objects = (await Promise.all(rendered)).flat();
  const gauges = catalogue().filter(({ service, type }) => service === "relay" && type === "gauge");
  const triggers = ofKind<ScaledObject>(objects, "ScaledObject").flatMap(({ spec }) => spec.triggers);

  const streams = triggers.filter(({ type }) => type === "nats-jetstream").map(({ metadata }) => metadata);
  const queries = triggers.flatMap(({ metadata }) => metadata["query"] ?? []);
  const pods = ofKind<Autoscaler>(objects, "HorizontalPodAutoscaler").flatMap(({ spec }) =>
    spec.metrics.flatMap((metric) => metric.pods?.metric.name ?? []),
  );

  assert.ok(streams.length > 0 && queries.length > 0 && pods.length > 0);
  for (const { stream, consumer } of streams) assert.deepEqual([stream, consumer], [usageStream, consumerName]);
  for (const name of [...pods, ...queries.flatMap((query) => query.match(/\b(?:relay|nodejs)_\w+/g) ?? [])])
    assert.ok(
      gauges.some((gauge) => gauge.name === name),
      `the relay has no gauge ${name}`,
    );
});

const byHpa = ["relay.autoscaling.hpa.enabled=true"];
const byKeda = ["relay.autoscaling.keda.enabled=true", "relay.autoscaling.keda.prometheusAddress=http://prometheus"];

for (const [name, scaled] of [
  ["a HorizontalPodAutoscaler", byHpa],
  ["KEDA", byKeda],
] as const) {
  test(`turning ${name} on keeps the pods, and so do upgrades after it`, { skip: cannotRunHelm }, async () => {
    await using cluster = await startApiServer();
    await using folder = await mkdtempDisposable(join(tmpdir(), "chart-scaling-"));
    const file = join(chartFolder, "ci/minimal-values.yaml");
    const upgradeTo = (sets: readonly string[]): Promise<void> =>
      upgrade(cluster.url, folder.path, {
        name: "minimal",
        file,
        sets: ["migrate.enabled=false", "catalog.check=false", ...sets],
      });
    const spec = (service: string): Tree =>
      cluster.object("deployments", `shop-model-relay-${service}`)["spec"] as Tree;

    await upgradeTo(["relay.replicas=4"]);
    assert.deepEqual([spec("relay")["replicas"], spec("billing")["replicas"]], [4, 2]);
    await upgradeTo(scaled);
    assert.equal(spec("relay")["replicas"], 4, "not one pod until the scaler looks");
    spec("relay")["replicas"] = 7;
    await upgradeTo([...scaled, "relay.podAnnotations.changed=yes"]);
    assert.equal(spec("relay")["replicas"], 7, "the number is the scaler's");
    await upgradeTo(["relay.replicas=3"]);
    assert.equal(spec("relay")["replicas"], 3, "without a scaler it is the chart's again");
  });
}
