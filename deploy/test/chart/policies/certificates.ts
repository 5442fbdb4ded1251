import { type KubeObject, nameOf, ofKind, podsOf } from "../objects.ts";

type Certificate = { secretName: string; dnsNames: string[]; usages: string[]; isCA?: boolean };

/** A certificate makes its component what it is and nothing else, serves both sides, and is mounted by its pods. */
export function certificatesFit(objects: KubeObject[]): string[] {
  const certificates = ofKind<Certificate>(objects, "Certificate").filter(({ spec }) => !spec.isCA);
  return certificates.flatMap((certificate) => {
    const { dnsNames, usages, secretName } = certificate.spec;
    const component = certificate.metadata.labels?.["app.kubernetes.io/component"] ?? "";
    const mounting = podsOf(objects).filter((pod) =>
      pod.spec.volumes?.some(({ secret }) => secret?.secretName === secretName),
    );
    const name = nameOf(certificate);
    const wanted = `${component}.model-relay.internal`;
    return [
      ...(dnsNames.includes(wanted) ? [] : [`${name}: does not name ${wanted}`]),
      ...dnsNames.filter((host) => host !== wanted).map((host) => `${name}: names ${host}`),
      ...["server auth", "client auth"].filter((use) => !usages.includes(use)).map((use) => `${name}: not for ${use}`),
      ...(mounting.length > 0 ? [] : [`${name}: no pod of ${component} has ${secretName}`]),
      ...mounting.filter((pod) => pod.component !== component).map((pod) => `${name}: ${pod.owner} has ${secretName}`),
    ];
  });
}
