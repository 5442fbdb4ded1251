import * as workloads from "../policies/workloads.ts";
import { type PlantedCase, find, specOf } from "./planted.ts";

/** What is said about workloads from outside of them. */
export const workloadPolicies: PlantedCase[] = [
  {
    policy: "selectors match pods",
    check: workloads.selectorsMatchPods,
    violations: [
      {
        says: "a selector of another",
        plant: (objects) => {
          const { selector } = specOf<{ selector: { matchLabels: Record<string, string> } }>(
            objects,
            "Deployment",
            "-relay",
          );
          selector.matchLabels["app.kubernetes.io/component"] = "billing";
        },
        finds: /relay: does not select its own pods/,
      },
    ],
  },
  {
    policy: "a budget selects one workload",
    check: workloads.budgetsSelectOne,
    violations: [
      {
        says: "a selector of another",
        plant: (objects) => {
          const { selector } = specOf<{ selector: { matchLabels: Record<string, string> } }>(
            objects,
            "PodDisruptionBudget",
            "-relay",
          );
          selector.matchLabels["app.kubernetes.io/component"] = "billing";
        },
        finds: /relay: selects Deployment\/.*billing/,
      },
      {
        says: "a budget of nothing",
        plant: (objects) =>
          void (specOf<{ maxUnavailable: number }>(objects, "PodDisruptionBudget", "-relay").maxUnavailable = 0),
        finds: /relay: no node could ever be emptied/,
      },
    ],
  },
  {
    policy: "scalers have targets",
    check: workloads.scalersHaveTargets,
    violations: [
      {
        says: "a target that is not there",
        plant: (objects) =>
          void objects.push({
            apiVersion: "keda.sh/v1alpha1",
            kind: "ScaledObject",
            metadata: { name: "s" },
            spec: { scaleTargetRef: { name: "nobody" } },
          }),
        finds: /ScaledObject\/s: no Deployment nobody/,
      },
      {
        says: "two scalers of one, and a fixed number",
        plant: (objects) => {
          const { name } = find(objects, "Deployment", "-console").metadata;
          specOf<{ replicas: number }>(objects, "Deployment", "-console").replicas = 2;
          for (const kind of ["ScaledObject", "HorizontalPodAutoscaler"])
            objects.push({ apiVersion: "v1", kind, metadata: { name: "s" }, spec: { scaleTargetRef: { name } } });
        },
        finds: /ScaledObject\/s: Deployment .* has a number of replicas[^]*ScaledObject\/s: .*-console has two scalers/,
      },
    ],
  },
  {
    policy: "routes lead to Services",
    check: workloads.routesLeadToServices,
    violations: [
      {
        says: "a Service that is not there, behind a gateway's own timeout",
        plant: (objects) =>
          void objects.push({
            apiVersion: "gateway.networking.k8s.io/v1",
            kind: "HTTPRoute",
            metadata: { name: "r" },
            spec: { rules: [{ backendRefs: [{ name: "nobody", port: 80 }] }] },
          }),
        finds: /HTTPRoute\/r: no Service nobody with the port 80[^]*HTTPRoute\/r: a gateway's own timeout/,
      },
    ],
  },
  {
    policy: "monitors find pods",
    check: workloads.monitorsFindPods,
    violations: [
      {
        says: "a monitor of nothing",
        plant: (objects) =>
          void objects.push({
            apiVersion: "monitoring.coreos.com/v1",
            kind: "PodMonitor",
            metadata: { name: "m" },
            spec: { selector: { matchLabels: { a: "b" } }, podMetricsEndpoints: [{ port: "metrics" }] },
          }),
        finds: /relay: no PodMonitor finds it[^]*relay: no port metrics/,
      },
    ],
  },
];
