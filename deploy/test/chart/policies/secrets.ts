import { containersOf, isDevelopment, type KubeObject, nameOf, podsOf } from "../objects.ts";

/** Values of variables that are passwords by their name, and addresses with a user's password in them. */
const isPassword = (name: string, value: string): boolean =>
  value !== "" && (/(PASSWORD|TOKEN|SECRET_KEY|API_KEY|_SECRET)$/.test(name) || /:\/\/[^/@\s]*:[^/@\s]+@/.test(value));

/** Certificates between services, which the release makes where nobody else does. */
const isCertificate = (secret: KubeObject): boolean => secret["type"] === "kubernetes.io/tls";

/** The keys that prove holds, too. */
const isHoldProof = (secret: KubeObject): boolean => secret.metadata.name.endsWith("-hold-proof");

/** Secrets are made by the operator and only named by the chart; the development set alone has some of its own. */
export function noSecretValues(objects: KubeObject[]): string[] {
  if (isDevelopment(objects)) return [];
  const secrets = objects
    .filter((object) => object.kind === "Secret" && !isCertificate(object) && !isHoldProof(object))
    .map((secret) => `${nameOf(secret)} is rendered`);
  const variables = podsOf(objects).flatMap((pod) =>
    containersOf(pod).flatMap(({ env = [], args = [], command = [] }) => [
      ...env
        .filter(({ name, value = "" }) => isPassword(name, value))
        .map(({ name }) => `${pod.owner}: ${name} is a plain password`),
      ...[...command, ...args]
        .filter((word) => isPassword("", word))
        .map(() => `${pod.owner}: a password stands in the command`),
    ]),
  );
  const settings = objects
    .filter(({ kind }) => kind === "ConfigMap")
    .flatMap((map) =>
      Object.entries((map["data"] ?? {}) as Record<string, string>)
        .filter(([, text]) => isPassword("", text) || /BEGIN [A-Z ]*PRIVATE KEY/.test(text))
        .map(([key]) => `${nameOf(map)}: ${key} holds a password or a private key`),
    );
  return [...secrets, ...variables, ...settings];
}
