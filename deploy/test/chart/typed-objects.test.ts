import assert from "node:assert/strict";
import { test } from "node:test";
import { cannotRunHelm, render, valueSets } from "./helm.ts";
import type { KubeObject } from "./objects.ts";
import { typeProblems } from "./typed-objects.ts";

/** Objects with a field that their kind does not have, or of another type than it has. */
const wrong: { says: string; object: KubeObject; finds: RegExp }[] = [
  {
    says: "a misspelt field of a pod",
    object: {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "a" },
      spec: { containers: [{ name: "a" }], terminationGracePeriodSecondz: 1 },
    },
    finds: /planted\/Pod-a\.ts.*'"terminationGracePeriodSecondz"' does not exist/,
  },
  {
    says: "a text in the place of a number",
    object: {
      apiVersion: "autoscaling/v2",
      kind: "HorizontalPodAutoscaler",
      metadata: { name: "b" },
      spec: { maxReplicas: "3", scaleTargetRef: { kind: "Deployment", name: "b" } },
    },
    finds: /planted\/HorizontalPodAutoscaler-b\.ts.*'string' is not assignable to type 'number'/,
  },
  {
    says: "an unknown field of a resource that is not Kubernetes' own",
    object: {
      apiVersion: "monitoring.coreos.com/v1",
      kind: "PodMonitor",
      metadata: { name: "c" },
      spec: { selector: {}, podMetricsEndpoints: [{ port: "ops", intervall: "30s" }] },
    },
    finds: /planted\/PodMonitor-c\.ts.*'"intervall"' does not exist/,
  },
  {
    says: "a kind that does not exist",
    object: { apiVersion: "apps/v1", kind: "Deploiment", metadata: { name: "d" } },
    finds: /planted\/Deploiment-d\.ts.*Cannot find module/,
  },
];

test("every rendered object of every set is what its type says", { skip: cannotRunHelm }, async () => {
  const sets = new Map<string, KubeObject[]>();
  for (const { name, file, sets: words } of valueSets()) sets.set(name, await render(file, words));
  assert.ok(sets.size > 0);
  assert.deepEqual(await typeProblems(sets), []);
});

test("the compiler finds what is planted", async () => {
  const problems = await typeProblems(new Map([["planted", wrong.map(({ object }) => object)]]));
  for (const { says, finds } of wrong)
    assert.ok(
      problems.some((problem) => finds.test(problem)),
      says,
    );
});
