import assert from "node:assert/strict";
import type { Container, KubeObject, PodSpec } from "../objects.ts";

/** A change of rendered objects that breaks a policy, and the words of the problem that it must make. */
export type Violation = { says: string; plant: (objects: KubeObject[]) => unknown; finds: RegExp };

/** A policy and what it must find; `given` are names in a set's values: variables and ConfigMaps of the operator. */
export type PlantedCase = {
  policy: string;
  check: (objects: KubeObject[], given?: string[]) => string[];
  violations: Violation[];
};

/** The object of this kind whose name ends so. Throws when there is none. */
export function find(objects: KubeObject[], kind: string, name: string): KubeObject {
  const found = objects.find((object) => object.kind === kind && object.metadata.name.endsWith(name));
  assert.ok(found, `the set has no ${kind} …${name}`);
  return found;
}

/** Its spec, to be changed by whoever knows its form. */
export const specOf = <Spec>(objects: KubeObject[], kind: string, name: string): Spec =>
  find(objects, kind, name)["spec"] as Spec;

/** The pod that a component's Deployment makes. */
export const podOf = (objects: KubeObject[], component: string): PodSpec =>
  specOf<{ template: { spec: PodSpec } }>(objects, "Deployment", `-${component}`).template.spec;

/** The relay's container. */
export function relayOf(objects: KubeObject[]): Container {
  const [container] = podOf(objects, "relay").containers;
  assert.ok(container);
  return container;
}
