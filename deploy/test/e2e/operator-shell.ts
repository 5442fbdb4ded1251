import { mkdir, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { grpcFilesIn } from "../../tools/certificates/folder.ts";
import { repository, run, type CommandResult } from "../../tools/checks/run.ts";
import { prelude } from "./operator-commands.ts";
import type { World } from "./world.ts";

/** Pods and the deployment of the console, as their commands are told from outside. */
export const relayPod = "model-relay-relay-6c9f7d5b8c-x2x4k";
const consoleName = "deployment/model-relay-console";

/**
 * What stands for kubectl: logs of services by label, and commands of the image with the variables of a pod. It refuses
 * whatever else it is asked.
 */
const kubectl = (folder: string, tlsFolder: string): string => `#!/bin/sh
refuse() { echo "kubectl: not here: $*" >&2; exit 1; }
[ "$1" = -n ] && [ "$2" = model-relay ] || refuse "$@"
asked=$3; shift 3
case "$asked $*" in
  "get deployment -l app.kubernetes.io/instance=model-relay,app.kubernetes.io/component=console -o name")
    echo ${consoleName} ;;
  "get secret model-relay-grpc-authority -o jsonpath={.data.tls\\.crt}") base64 ${tlsFolder}/authority/ca.crt ;;
  "get secret model-relay-grpc-authority -o jsonpath={.data.tls\\.key}") base64 ${tlsFolder}/authority/ca.key ;;
  "port-forward "*) ;;
  "logs -l app.kubernetes.io/part-of=model-relay "*" --tail=-1") cat ${folder}/logs/* ;;
  "logs -l app.kubernetes.io/component="*" --tail=-1") cat "${folder}/logs/\${2#*component=}" ;;
  "exec "*" -- /nodejs/bin/node "*)
    pod=\${1##*/}; shift 3
    cd ${repository} && exec env -i $(cat "${folder}/pods/$pod") ${process.execPath} "$@" ;;
  *) refuse "$asked" "$@" ;;
esac
`;

// Programs of the image are started by the dozen; only the first should have to compile them.
const ofThisMachine = { NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? "" };

const variablesOf = (variables: Record<string, string>): string =>
  Object.entries({ ...ofThisMachine, ...variables })
    .map(([name, value]) => `${name}=${value}\n`)
    .join("");

/** The pages' functions, with the addresses of this system in place of what an operator's machine forwards. */
const functionsAt = ({ authQuotaAddress, billingAddress, relayAddress }: World["stack"]["addresses"]): string =>
  prelude()
    .replace("127.0.0.1:7001", authQuotaAddress)
    .replace("127.0.0.1:7002", billingAddress)
    .replace("127.0.0.1:7004", relayAddress)
    .replace("npm run ", `npm --prefix "${repository}" run `);

/**
 * Makes a shell of an operator: the functions that runbooks assume, and on its path a stand-in for kubectl. It runs a
 * line of a page, with `words` in the place of its upper-case ones, in a folder of its own.
 */
export async function openOperatorShell(
  folder: string,
  { stack, linesOf }: World,
): Promise<(line: string, words: Record<string, string>) => Promise<CommandResult>> {
  for (const name of ["bin", "logs", "pods", "work"]) await mkdir(join(folder, name));
  for (const service of ["relay", "auth-quota", "billing", "video-task"] as const) {
    await writeFile(
      join(folder, "logs", service),
      linesOf(service)
        .map((line) => `${line}\n`)
        .join(""),
    );
  }
  const { authQuotaAddress, billingAddress, relayAddress, opsUrls } = stack.addresses;
  const ofConsole = {
    AUTH_QUOTA_ADDRESS: authQuotaAddress,
    BILLING_ADDRESS: billingAddress,
    RELAY_ADDRESSES: relayAddress,
    ...grpcFilesIn(stack.tlsFolder, "console"),
  };
  await writeFile(join(folder, "pods", "model-relay-console"), variablesOf(ofConsole));
  await writeFile(join(folder, "pods", relayPod), variablesOf({ OPS_PORT: new URL(opsUrls.relay).port }));
  await writeFile(join(folder, "bin", "kubectl"), kubectl(folder, stack.tlsFolder), { mode: 0o700 });
  await writeFile(join(folder, "work", "functions.sh"), functionsAt(stack.addresses));
  const before = [
    `PATH="${join(folder, "bin")}${delimiter}$PATH"`,
    `REDIS_URL="${stack.stores.urls.redis}"`,
    `. "${join(folder, "work", "functions.sh")}"`,
  ].join("\n");
  return (line, words) => {
    const told = line
      .replaceAll(/\b[A-Z]+\b/g, (word) => words[word] ?? word)
      .replace("catalog.yaml", stack.catalogFile)
      .replace("127.0.0.1:7004", stack.addresses.relayAddress);
    return run("sh", ["-c", `${before}\n${told}`], told.startsWith("npm ") ? repository : join(folder, "work"));
  };
}
