import type { PeerCertificate } from "node:tls";

/** Who may be at the other end of a gRPC connection: a service, or the operator with a tool. */
export const identities = ["relay", "auth-quota", "billing", "video-task", "console", "admin"] as const;

export type Identity = (typeof identities)[number];

/** The name in a certificate that makes its holder an identity, whatever the hosts are called that it runs on. */
export const certificateNameOf = (identity: Identity): string => `${identity}.model-relay.internal`;

const identityByName = new Map(identities.map((identity) => [`DNS:${certificateNameOf(identity)}`, identity]));

/** The identities that a certificate names; its wildcards and its common name count for nothing. */
export function identitiesOf({ subjectaltname = "" }: Pick<PeerCertificate, "subjectaltname">): Identity[] {
  // So Node writes names with a comma in them; a part of one could pass for another.
  if (subjectaltname.includes('"')) return [];
  return subjectaltname.split(", ").flatMap((name) => identityByName.get(name) ?? []);
}
