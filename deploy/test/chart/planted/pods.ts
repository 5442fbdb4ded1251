import type { PodSpec } from "../objects.ts";
import * as pods from "../policies/pods.ts";
import { noSecretValues } from "../policies/secrets.ts";
import { type PlantedCase, podOf, relayOf, specOf } from "./planted.ts";

/** How pods run, and what is secret. */
export const podPolicies: PlantedCase[] = [
  {
    policy: "pods are restricted",
    check: pods.restrictedPods,
    violations: [
      {
        says: "a root that can be written",
        plant: (objects) => void (relayOf(objects).securityContext = { allowPrivilegeEscalation: false }),
        finds: /relay relay: can write its root/,
      },
      {
        says: "a capability that is kept",
        plant: (objects) => void (relayOf(objects).securityContext!.capabilities = { drop: ["NET_RAW"] }),
        finds: /does not drop ALL/,
      },
      {
        says: "root",
        plant: (objects) => void (podOf(objects, "billing").securityContext = { runAsUser: 0 }),
        finds: /billing billing: runAsNonRoot is not true/,
      },
      {
        says: "a folder of the node",
        plant: (objects) => void podOf(objects, "console").volumes?.push({ name: "etc", hostPath: { path: "/etc" } }),
        finds: /console: etc is a hostPath/,
      },
      {
        says: "the node's network",
        plant: (objects) => void (podOf(objects, "relay").hostNetwork = true),
        finds: /shares a namespace/,
      },
    ],
  },
  {
    policy: "pods get no token",
    check: pods.noTokens,
    violations: [
      {
        says: "a token",
        plant: (objects) => void delete podOf(objects, "relay").automountServiceAccountToken,
        finds: /relay: automount/,
      },
    ],
  },
  {
    policy: "logs of failures are kept",
    check: pods.failuresAreKept,
    violations: [
      {
        says: "a Job that starts its pod again",
        plant: (objects) => {
          const { template } = specOf<{ template: { spec: PodSpec } }>(objects, "Job", "-migrate");
          template.spec.restartPolicy = "OnFailure";
        },
        finds: /migrate: restartPolicy is not Never/,
      },
    ],
  },
  {
    policy: "resources are given",
    check: pods.resourcesGiven,
    violations: [
      {
        says: "no limit of memory",
        plant: (objects) => void delete relayOf(objects).resources?.limits,
        finds: /relay relay: no resources\.limits\.memory/,
      },
    ],
  },
  {
    policy: "images are pinned",
    check: pods.imagesPinned,
    violations: [
      { says: "latest", plant: (objects) => void (relayOf(objects).image = "a/b:latest"), finds: /a\/b:latest/ },
      {
        says: "no tag",
        plant: (objects) => void (relayOf(objects).image = "a.example:5000/b"),
        finds: /5000\/b is not/,
      },
    ],
  },
  {
    policy: "probes are given",
    check: pods.probesGiven,
    violations: [
      {
        says: "no probe of readiness",
        plant: (objects) => void delete relayOf(objects).readinessProbe,
        finds: /relay: no readinessProbe/,
      },
      {
        says: "life that asks the stores",
        plant: (objects) => void (relayOf(objects).livenessProbe = { httpGet: { path: "/readyz", port: "ops" } }),
        finds: /livenessProbe asks \/readyz/,
      },
    ],
  },
  {
    policy: "grace is enough",
    check: pods.graceIsEnough,
    violations: [
      {
        says: "grace as long as the drain",
        plant: (objects) => void (podOf(objects, "relay").terminationGracePeriodSeconds = 600),
        finds: /relay: 600 s of grace, \d+ s are needed/,
      },
      {
        says: "no time for endpoints",
        plant: (objects) => void delete relayOf(objects).lifecycle,
        finds: /relay: no preStop sleep/,
      },
    ],
  },
  {
    policy: "no secret is rendered",
    check: noSecretValues,
    violations: [
      {
        says: "a Secret",
        plant: (objects) => void objects.push({ apiVersion: "v1", kind: "Secret", metadata: { name: "s" }, data: {} }),
        finds: /Secret\/s is rendered/,
      },
      {
        says: "a password in an address",
        plant: (objects) => void relayOf(objects).env?.push({ name: "NATS_URL", value: "nats://me:word@nats:4222" }),
        finds: /NATS_URL is a plain password/,
      },
      {
        says: "a password by its name",
        plant: (objects) => void relayOf(objects).env?.push({ name: "OPENAI_API_KEY", value: "sk-1" }),
        finds: /OPENAI_API_KEY is a plain password/,
      },
      {
        says: "a password in a ConfigMap",
        plant: (objects) =>
          void objects.push({
            apiVersion: "v1",
            kind: "ConfigMap",
            metadata: { name: "c" },
            data: { url: "redis://:word@redis" },
          }),
        finds: /ConfigMap\/c: url holds/,
      },
    ],
  },
];
