import assert from "node:assert/strict";
import { test } from "node:test";
import { schemaValidator, versions } from "./api-schemas.ts";
import { cannotRunHelm, render, valueSets } from "./helm.ts";
import type { KubeObject } from "./objects.ts";

const validator = await schemaValidator();
const skip = cannotRunHelm || ("missing" in validator && validator.missing);

const named = (object: Omit<KubeObject, "metadata">, name: string): KubeObject =>
  ({ ...object, metadata: { name } }) as KubeObject;

/** What a lenient client lets pass. */
const wrong: { says: string; object: KubeObject; finds: RegExp }[] = [
  {
    says: "a field that a Deployment does not have",
    object: named(
      { apiVersion: "apps/v1", kind: "Deployment", spec: { selector: {}, template: {}, replica: 3 } },
      "unknown-field",
    ),
    finds: /unknown-field.*replica/,
  },
  {
    says: "a field of another type",
    object: named({ apiVersion: "policy/v1", kind: "PodDisruptionBudget", spec: { maxUnavailable: {} } }, "other-type"),
    finds: /other-type/,
  },
  {
    says: "a custom resource without what its definition requires",
    object: named({ apiVersion: "keda.sh/v1alpha1", kind: "ScaledObject", spec: { triggers: [] } }, "no-target"),
    finds: /ScaledObject no-target.*scaleTargetRef/,
  },
];

test("every object of every set passes strict validation against the API's schemas", { skip }, async () => {
  assert.ok(typeof validator === "function");
  const rendered = valueSets().map(async ({ name, file, sets: words }) => [name, await render(file, words)] as const);
  const sets = new Map(await Promise.all(rendered));
  assert.ok(sets.size > 8, `${sets.size} sets`);
  assert.deepEqual(await validator(sets), []);
});

test("strict validation finds what is planted, in each version", { skip }, async () => {
  assert.ok(typeof validator === "function");
  const problems = await validator(new Map([["planted", wrong.map(({ object }) => object)]]));
  for (const { says, object, finds } of wrong) {
    const found = problems.filter((problem) => finds.test(problem));
    assert.equal(
      found.length,
      object.apiVersion.startsWith("keda") ? 1 : versions.length,
      `${says}: ${problems.join("; ")}`,
    );
  }
});
