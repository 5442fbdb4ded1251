import { containersOf, isSelected, type KubeObject, ofKind, type Pod, podsOf } from "../objects.ts";
import type { NetworkPolicy, Peer, Rule, Service } from "./network.ts";

/** A port of the release that a pod is told to ask. */
type ConnectionQuery = { from: Pod; to: Pod; port: number };

const hasPort = ({ ports }: Rule, port: number): boolean => !ports || ports.some((one) => one.port === port);

const hasPod = (peers: Peer[] | undefined, pod: Pod): boolean =>
  !peers || peers.some(({ podSelector }) => podSelector && isSelected(pod.labels, podSelector.matchLabels ?? {}));

/** The pods' own port behind a Service's. */
function podPort(pod: Pod, { spec }: { spec: Service }, port: number): number | undefined {
  const found = spec.ports?.find((one) => one.port === port);
  const target = found?.targetPort ?? found?.port;
  const ports = containersOf(pod).flatMap((container) => container.ports ?? []);
  // A headless Service has no ports of its own: what is asked is the pod's.
  if (spec.clusterIP === "None") return port;
  return ports.find(({ name, containerPort }) => name === target || containerPort === target)?.containerPort;
}

/** Whatever host and port of the release stands in a variable or an argument of a pod. */
function askedPorts(objects: KubeObject[]): ConnectionQuery[] {
  const pods = podsOf(objects);
  const services = new Map(ofKind<Service>(objects, "Service").map((service) => [service.metadata.name, service]));
  return pods.flatMap((from) => {
    const texts = containersOf(from).flatMap(({ env = [], args = [] }) => [
      ...env.map(({ value = "" }) => value),
      ...args,
    ]);
    const addresses = texts.flatMap((text) => [
      ...text.matchAll(/([a-z0-9-]+)(?:\.[a-z0-9-]+\.svc[a-z0-9.-]*)?:(\d+)/g),
    ]);
    return addresses.flatMap(([, host = "", port = ""]) => {
      const service = services.get(host);
      if (!service) return [];
      return pods
        .filter(({ labels }) => isSelected(labels, service.spec.selector ?? {}))
        .flatMap((to) => ({ from, to, port: podPort(to, service, Number(port)) ?? Number.NaN }));
    });
  });
}

/** The policies let every pod ask what it is told to ask, on both sides. Gives what is closed. */
export function askedPortsAreOpen(objects: KubeObject[]): string[] {
  const policies = ofKind<NetworkPolicy>(objects, "NetworkPolicy");
  const of = ({ labels }: Pod): NetworkPolicy[] =>
    policies.map(({ spec }) => spec).filter(({ podSelector }) => isSelected(labels, podSelector.matchLabels ?? {}));
  return askedPorts(objects).flatMap(({ from, to, port }) => {
    const goesOut = of(from).some(({ egress = [] }) =>
      egress.some((rule) => hasPort(rule, port) && hasPod(rule.to, to)),
    );
    const comesIn = of(to).some(({ ingress = [] }) =>
      ingress.some((rule) => hasPort(rule, port) && hasPod(rule.from, from)),
    );
    return [
      ...(goesOut ? [] : [`${from.owner}: may not go to port ${port} of ${to.owner}`]),
      ...(comesIn ? [] : [`${to.owner}: lets ${from.owner} not in at port ${port}`]),
    ];
  });
}
