import ipaddr from "ipaddr.js";
import { isSelected, type KubeObject, type Labels, nameOf, ofKind, type Pod, podsOf } from "../objects.ts";
import { isServing } from "./pods.ts";

export type Peer = { ipBlock?: { cidr: string; except?: string[] }; podSelector?: { matchLabels?: Labels } };

export type Rule = { to?: Peer[]; from?: Peer[]; ports?: { port?: number | string; protocol?: string }[] };

export type NetworkPolicy = {
  podSelector: { matchLabels?: Labels };
  policyTypes?: string[];
  ingress?: Rule[];
  egress?: Rule[];
};

export type Service = {
  clusterIP?: string;
  selector?: Labels;
  ports?: { name?: string; port: number; targetPort?: number | string }[];
};

/** Addresses at which clouds tell a machine its credentials. */
const metadataAddresses = [
  "169.254.169.254",
  "169.254.170.23",
  "100.100.100.200",
  "168.63.129.16",
  "192.0.0.192",
  "fd00:ec2::254",
  "fd00:ec2::23",
  "fd20:ce::254",
  // 169.254.169.254 behind a gateway from IPv6 to IPv4.
  "64:ff9b::a9fe:a9fe",
];

function holds(cidr: string, address: string): boolean {
  const one = ipaddr.parse(address);
  const [network, bits] = ipaddr.parseCIDR(cidr);
  return one.kind() === network.kind() && one.match(network, bits);
}

/** Every pod is selected by a policy for what comes in and by one for what goes out. */
export function podsAreFenced(objects: KubeObject[]): string[] {
  const policies = ofKind<NetworkPolicy>(objects, "NetworkPolicy");
  return podsOf(objects).flatMap(({ owner, labels }) =>
    ["Ingress", "Egress"]
      .filter(
        (direction) =>
          !policies.some(
            ({ spec }) =>
              isSelected(labels, spec.podSelector.matchLabels ?? {}) && spec.policyTypes?.includes(direction),
          ),
      )
      .map((direction) => `${owner}: no NetworkPolicy for ${direction}`),
  );
}

/** Whatever part of the internet is open, the addresses with a machine's credentials are not in it. */
export function metadataIsBlocked(objects: KubeObject[]): string[] {
  return ofKind<NetworkPolicy>(objects, "NetworkPolicy").flatMap((policy) =>
    (policy.spec.egress ?? []).flatMap(({ to, ports = [] }) => [
      ...(to === undefined || to.length === 0 ? [`${nameOf(policy)}: goes anywhere`] : []),
      ...(ports.length === 0 ? [`${nameOf(policy)}: goes to every port`] : []),
      ...(to ?? [])
        .flatMap(({ ipBlock }) => (ipBlock ? [ipBlock] : []))
        .filter(({ cidr, except = [] }) =>
          metadataAddresses.some((one) => holds(cidr, one) && !except.some((part) => holds(part, one))),
        )
        .map(({ cidr }) => `${nameOf(policy)}: ${cidr} holds metadata addresses`),
    ]),
  );
}

/** Every policy but the one that denies selects pods that are there, and so does every peer within the release. */
export function policiesSelectPods(objects: KubeObject[]): string[] {
  const pods = podsOf(objects);
  const selectsNone = (labels: Labels | undefined): boolean =>
    labels !== undefined && !pods.some((pod) => isSelected(pod.labels, labels));
  return ofKind<NetworkPolicy>(objects, "NetworkPolicy").flatMap((policy) => {
    const { podSelector, ingress = [], egress = [] } = policy.spec;
    const peers = [...ingress.flatMap(({ from = [] }) => from), ...egress.flatMap(({ to = [] }) => to)];
    return [podSelector, ...peers.flatMap((peer) => peer.podSelector ?? [])]
      .filter(({ matchLabels }) => selectsNone(matchLabels))
      .map(({ matchLabels }) => `${nameOf(policy)}: no pod has ${JSON.stringify(matchLabels)}`);
  });
}

const portNames = ({ spec }: Pod): (string | number)[] =>
  spec.containers.flatMap(({ ports = [] }) => ports.flatMap(({ name, containerPort }) => [name ?? "", containerPort]));

/** Every Service selects pods, and each of its ports is one of theirs. */
export function servicesReachPods(objects: KubeObject[]): string[] {
  const pods = podsOf(objects);
  return ofKind<Service>(objects, "Service").flatMap((service) => {
    const { selector = {}, ports = [] } = service.spec;
    const selected = pods.filter(({ labels }) => isSelected(labels, selector));
    if (selected.length === 0) return [`${nameOf(service)}: selects no pod`];
    const owners = new Set(selected.map(({ owner }) => owner));
    if (owners.size > 1) return [`${nameOf(service)}: selects pods of ${[...owners].join(" and ")}`];
    return ports
      .filter(({ port, targetPort = port }) => !selected.every((pod) => portNames(pod).includes(targetPort)))
      .map(({ port, targetPort = port }) => `${nameOf(service)}: no pod has the port ${targetPort}`);
  });
}

/** gRPC is balanced by its clients, so they must see every pod: its Services are headless, on the pod's own port. */
export function grpcIsHeadless(objects: KubeObject[]): string[] {
  const services = ofKind<Service>(objects, "Service");
  const problems = services.flatMap((service) =>
    (service.spec.ports ?? [])
      .filter(({ name }) => name === "grpc")
      .filter(() => service.spec.clusterIP !== "None")
      .map(() => `${nameOf(service)}: gRPC is not headless`),
  );
  const without = podsOf(objects)
    .filter(isServing)
    .filter((pod) => portNames(pod).includes("grpc"))
    .filter(
      ({ labels }) =>
        !services.some(
          ({ spec }) => isSelected(labels, spec.selector ?? {}) && spec.ports?.some(({ name }) => name === "grpc"),
        ),
    )
    .map(({ owner }) => `${owner}: no Service leads to its gRPC`);
  return [...problems, ...without];
}
