import { generateKeyPairSync } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Agent, fetch } from "undici";
import { startProcess } from "#shared/testing/child-process.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { until } from "#shared/testing/until.ts";
import { type CommandResult, run } from "../../tools/checks/run.ts";
import { controlPlanePrograms } from "./programs.ts";

/** A control plane of Kubernetes: etcd, API server and controllers, without a machine that runs pods. */
export type Cluster = AsyncDisposable & {
  /** Who may do everything, for kubectl and helm. */
  kubeconfig: string;
  kubectl: (...words: string[]) => Promise<CommandResult>;
  /** Reads or changes by the API's paths. Throws for a status of 400 or more. */
  api: <T>(method: string, path: string, body?: object) => Promise<T>;
};

const token = "drill-administrator";
// The one name that the API server's own certificate is for, wherever it runs.
const serverName = "kubernetes.default.svc";
const readyMs = 180_000;

/** Starts one in a folder. */
export async function startCluster(folder: string): Promise<Cluster> {
  await using owned = new AsyncDisposableStack();
  const programs = await controlPlanePrograms();
  const start = async (command: string, args: string[]): Promise<void> => {
    const plan = { command, args, folder, environment: { PATH: "/usr/bin:/bin" }, orphanSignal: "SIGKILL" } as const;
    const started = await startProcess(plan);
    owned.defer(() => started.end("SIGTERM", 10_000));
  };
  const [client, peer, port] = [await freePort(), await freePort(), await freePort()];
  const kubeconfig = join(folder, "kubeconfig");
  const authority = join(folder, "certificates/apiserver.crt");
  await writeKeys(folder);
  await writeFile(kubeconfig, configOf(port, authority), { mode: 0o600 });

  await start(programs.etcd, etcdWords(client, peer));
  await start(programs.apiServer, apiServerWords(port, client));
  const kubectl: Cluster["kubectl"] = (...words) => run("kubectl", ["--kubeconfig", kubeconfig, ...words], folder);
  await until("the API server is ready", async () => (await kubectl("get", "--raw", "/readyz")).code === 0, readyMs);
  await start(programs.controllers, controllerWords(kubeconfig));
  const agent = new Agent({ connect: { ca: await readFile(authority), servername: serverName } });
  owned.defer(() => agent.close());
  const made = owned.move();
  return { kubeconfig, kubectl, api: apiOf(port, agent), [Symbol.asyncDispose]: () => made.disposeAsync() };
}

async function writeKeys(folder: string): Promise<void> {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2_048 });
  await writeFile(join(folder, "accounts.key"), privateKey.export({ type: "pkcs8", format: "pem" }), { mode: 0o600 });
  await writeFile(join(folder, "accounts.pub"), publicKey.export({ type: "spki", format: "pem" }));
  await writeFile(join(folder, "tokens.csv"), `${token},drill,drill,system:masters\n`, { mode: 0o600 });
}

const configOf = (port: number, authority: string): string =>
  JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "drill",
    clusters: [
      {
        name: "drill",
        cluster: {
          server: `https://127.0.0.1:${port}`,
          "certificate-authority": authority,
          "tls-server-name": serverName,
        },
      },
    ],
    users: [{ name: "drill", user: { token } }],
    contexts: [{ name: "drill", context: { cluster: "drill", user: "drill" } }],
  });

const etcdWords = (client: number, peer: number): string[] => [
  "--data-dir=etcd",
  `--listen-client-urls=http://127.0.0.1:${client}`,
  `--advertise-client-urls=http://127.0.0.1:${client}`,
  `--listen-peer-urls=http://127.0.0.1:${peer}`,
  "--unsafe-no-fsync",
];

const apiServerWords = (port: number, etcd: number): string[] => [
  `--etcd-servers=http://127.0.0.1:${etcd}`,
  "--bind-address=127.0.0.1",
  `--secure-port=${port}`,
  // Of no machine: it must not be of the loopback, and nothing asks for it.
  "--advertise-address=192.0.2.1",
  "--cert-dir=certificates",
  "--token-auth-file=tokens.csv",
  "--authorization-mode=RBAC",
  "--service-account-issuer=https://kubernetes.default.svc",
  "--service-account-key-file=accounts.pub",
  "--service-account-signing-key-file=accounts.key",
  "--service-cluster-ip-range=10.96.0.0/16",
];

const controllerWords = (kubeconfig: string): string[] => [
  `--kubeconfig=${kubeconfig}`,
  "--service-account-private-key-file=accounts.key",
  "--leader-elect=false",
  "--bind-address=127.0.0.1",
  "--secure-port=0",
  // No kubelet says that its node is well.
  "--controllers=*,-node-lifecycle-controller,-certificatesigningrequest-signing-controller",
];

function apiOf(port: number, dispatcher: Agent): Cluster["api"] {
  return async <T>(method: string, path: string, body?: object): Promise<T> => {
    const type = method === "PATCH" ? "application/strategic-merge-patch+json" : "application/json";
    const response = await fetch(`https://127.0.0.1:${port}${path}`, {
      method,
      dispatcher,
      headers: { authorization: `Bearer ${token}`, "content-type": type },
      body: body === undefined ? null : JSON.stringify(body),
    });
    const text = await response.text();
    if (response.status >= 400) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return JSON.parse(text) as T;
  };
}
