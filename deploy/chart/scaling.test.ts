import assert from "node:assert/strict";
import { test } from "node:test";
import { consumerName } from "../../services/billing/stream.ts";
import { usageStream } from "../../services/shared/usage-stream.ts";
import { catalogue } from "../observability/catalogue.ts";
import { cannotRunHelm, render, valueSets } from "./helm.ts";
import { ofKind } from "./objects.ts";

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
  for (const name of [...pods, ...queries.flatMap((query) => query.match(/relay_\w+/g) ?? [])])
    assert.ok(
      gauges.some((gauge) => gauge.name === name),
      `the relay has no gauge ${name}`,
    );
});
