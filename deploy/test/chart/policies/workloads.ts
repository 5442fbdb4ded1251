import { isSelected, type KubeObject, type Labels, nameOf, ofKind, type Pod, podsOf } from "../objects.ts";

type Target = { scaleTargetRef: { kind?: string; name: string } };

const deploymentsOf = (objects: KubeObject[]): Set<string> =>
  new Set(objects.filter(({ kind }) => kind === "Deployment").map(({ metadata }) => metadata.name));

/** A workload selects the pods that it makes, and no other workload selects them. */
export function selectorsMatchPods(objects: KubeObject[]): string[] {
  const workloads = ofKind<{ selector: { matchLabels: Labels } }>(objects, "Deployment").concat(
    ofKind(objects, "StatefulSet"),
  );
  const pods = podsOf(objects);
  return workloads.flatMap((workload) => {
    const selected = pods
      .filter(({ labels }) => isSelected(labels, workload.spec.selector.matchLabels))
      .map(({ owner }) => owner);
    const own = nameOf(workload);
    if (!selected.includes(own)) return [`${own}: does not select its own pods`];
    return selected.filter((owner) => owner !== own).map((owner) => `${own}: selects the pods of ${owner}, too`);
  });
}

/** A budget selects the pods of just one workload, and lets one of them go. */
export function budgetsSelectOne(objects: KubeObject[]): string[] {
  type Budget = { selector: { matchLabels: Labels }; maxUnavailable?: number | string; minAvailable?: unknown };
  const pods = podsOf(objects);
  return ofKind<Budget>(objects, "PodDisruptionBudget").flatMap((budget) => {
    const { selector, maxUnavailable } = budget.spec;
    const owners = pods.filter(({ labels }) => isSelected(labels, selector.matchLabels)).map(({ owner }) => owner);
    return [
      ...(owners.length === 1 && owners[0] === `Deployment/${budget.metadata.name}`
        ? []
        : [`${nameOf(budget)}: selects ${owners.join(", ") || "nothing"}`]),
      ...(maxUnavailable === undefined || maxUnavailable === 0 || maxUnavailable === "0%"
        ? [`${nameOf(budget)}: no node could ever be emptied`]
        : []),
    ];
  });
}

/** What scales names a Deployment of the release, which one thing alone scales and which asks for no number itself. */
export function scalersHaveTargets(objects: KubeObject[]): string[] {
  const scalers = [...ofKind<Target>(objects, "HorizontalPodAutoscaler"), ...ofKind<Target>(objects, "ScaledObject")];
  const deployments = deploymentsOf(objects);
  const fixed = new Set(
    ofKind<{ replicas?: number }>(objects, "Deployment")
      .filter(({ spec }) => spec.replicas !== undefined)
      .map(({ metadata }) => metadata.name),
  );
  const targets = scalers.map(({ spec }) => spec.scaleTargetRef.name);
  return scalers.flatMap((scaler) => {
    const { name } = scaler.spec.scaleTargetRef;
    return [
      ...(deployments.has(name) ? [] : [`${nameOf(scaler)}: no Deployment ${name}`]),
      ...(fixed.has(name) ? [`${nameOf(scaler)}: Deployment ${name} has a number of replicas, too`] : []),
      ...(targets.filter((target) => target === name).length > 1 ? [`${nameOf(scaler)}: ${name} has two scalers`] : []),
    ];
  });
}

/** Routes from outside lead to a Service of the release and a port that it has. */
export function routesLeadToServices(objects: KubeObject[]): string[] {
  type Ports = { ports?: { name?: string; port: number }[] };
  type Route = { rules: { backendRefs?: { name: string; port?: number }[]; timeouts?: { request?: string } }[] };
  type Ingress = {
    rules?: {
      http: { paths: { backend: { service: { name: string; port: { name?: string; number?: number } } } }[] };
    }[];
  };
  const services = new Map(ofKind<Ports>(objects, "Service").map(({ metadata, spec }) => [metadata.name, spec]));
  const hasPort = (name: string, port: number | string | undefined): boolean =>
    services.get(name)?.ports?.some((one) => one.port === port || one.name === port) === true;
  const routes = ofKind<Route>(objects, "HTTPRoute").flatMap((route) =>
    route.spec.rules.flatMap(({ backendRefs = [], timeouts }) => [
      ...backendRefs
        .filter(({ name, port }) => !hasPort(name, port))
        .map(({ name, port }) => `${nameOf(route)}: no Service ${name} with the port ${port}`),
      ...(timeouts?.request === "0s" ? [] : [`${nameOf(route)}: a gateway's own timeout would cut streams`]),
    ]),
  );
  const ingresses = ofKind<Ingress>(objects, "Ingress").flatMap((ingress) =>
    (ingress.spec.rules ?? [])
      .flatMap(({ http }) => http.paths.map(({ backend }) => backend.service))
      .filter(({ name, port }) => !hasPort(name, port.name ?? port.number))
      .map(({ name, port }) => `${nameOf(ingress)}: no Service ${name} with the port ${port.name ?? port.number}`),
  );
  return [...routes, ...ingresses];
}

/** Prometheus is told of every serving pod of ours, by a port that each of them has. */
export function monitorsFindPods(objects: KubeObject[]): string[] {
  type Expression = { key: string; values: string[] };
  type Monitor = {
    selector: { matchLabels: Labels; matchExpressions?: Expression[] };
    podMetricsEndpoints: { port: string }[];
  };
  const isMeant = (pod: Pod): boolean => pod.kind === "Deployment" && !pod.component.startsWith("dev-");
  return ofKind<Monitor>(objects, "PodMonitor").flatMap(({ spec }) =>
    podsOf(objects)
      .filter(isMeant)
      .flatMap(({ owner, labels, spec: { containers } }) => {
        const { matchLabels, matchExpressions = [] } = spec.selector;
        const isFound =
          isSelected(labels, matchLabels) &&
          matchExpressions.every(({ key, values }) => values.includes(labels[key] ?? ""));
        const ports = containers.flatMap((container) => container.ports ?? []).map(({ name }) => name);
        return [
          ...(isFound ? [] : [`${owner}: no PodMonitor finds it`]),
          ...spec.podMetricsEndpoints
            .filter(({ port }) => !ports.includes(port))
            .map(({ port }) => `${owner}: no port ${port}`),
        ];
      }),
  );
}
