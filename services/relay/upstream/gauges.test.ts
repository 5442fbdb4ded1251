import assert from "node:assert/strict";
import { test } from "node:test";
import { createRegistry } from "#shared/metrics/ops.ts";
import { metricsText } from "#shared/metrics/text.ts";
import type { Model } from "../catalog/models.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { watchModels } from "./gauges.ts";

const upstream = (name: string): Upstream => ({ id: name, name }) as Upstream;
const model = (id: string, ...names: string[]): Model =>
  ({ id, routes: names.map((name) => ({ upstream: upstream(name), model: id })) }) as unknown as Model;

test("a model is told when none of its routes can be asked; a spare that nobody has asked yet is a route", async () => {
  const registry = createRegistry("relay");
  const circuits: Record<string, "open" | "half-open" | "cooling-down"> = {
    down: "open",
    limited: "cooling-down",
    probed: "half-open",
  };
  const look = ({ id }: Upstream) => ({ underWay: 0, circuit: circuits[id] ?? ("closed" as const) });
  const models = [
    model("lost", "down"),
    model("lost-twice", "down", "limited"),
    model("spare", "down", "idle"),
    model("back", "down", "probed"),
  ];
  watchModels(registry, { look }, () => models);
  const text = await metricsText(registry, { service: "relay", isOpenMetrics: false });
  assert.deepEqual(
    [...text.matchAll(/^relay_model_without_route\{model="([\w-]+)".*\} 1$/gm)].map(([, name]) => name),
    ["lost", "lost-twice"],
  );
});
