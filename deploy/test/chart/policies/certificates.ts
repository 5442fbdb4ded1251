import { containersOf, isSelected, type KubeObject, nameOf, ofKind, podsOf } from "../objects.ts";
import type { Service } from "./network.ts";

type Certificate = { secretName: string; dnsNames: string[]; usages: string[] };

/** Hosts by which pods are told to call a component over gRPC, without the dot at the end. */
function hostsOf(objects: KubeObject[], component: string): string[] {
  const services = ofKind<Service>(objects, "Service").filter(({ spec }) =>
    podsOf(objects).some((pod) => pod.component === component && isSelected(pod.labels, spec.selector ?? {})),
  );
  const told = podsOf(objects)
    .flatMap(containersOf)
    .flatMap(({ env = [] }) => env)
    .filter(({ name }) => /_ADDRESS(ES)?$/.test(name))
    .map(({ value = "" }) => /^(?:dns:\/\/\/)?([^:/]+):\d+$/.exec(value)?.[1]?.replace(/\.$/, "") ?? "");
  return told.filter((host) => services.some(({ metadata }) => host.split(".")[0] === metadata.name));
}

/** A certificate names every host by which its component is called, serves both sides, and is mounted by its pods. */
export function certificatesFit(objects: KubeObject[]): string[] {
  return ofKind<Certificate>(objects, "Certificate").flatMap((certificate) => {
    const { dnsNames, usages, secretName } = certificate.spec;
    const component = certificate.metadata.labels?.["app.kubernetes.io/component"] ?? "";
    const isMounted = podsOf(objects).some(
      (pod) => pod.component === component && pod.spec.volumes?.some(({ secret }) => secret?.secretName === secretName),
    );
    const name = nameOf(certificate);
    return [
      ...hostsOf(objects, component)
        .filter((host) => !dnsNames.includes(host))
        .map((host) => `${name}: does not name ${host}`),
      ...["server auth", "client auth"].filter((use) => !usages.includes(use)).map((use) => `${name}: not for ${use}`),
      ...(isMounted ? [] : [`${name}: no pod of ${component} has ${secretName}`]),
    ];
  });
}
