import assert from "node:assert/strict";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { findProgram } from "#shared/testing/binaries.ts";
import { until } from "#shared/testing/until.ts";
import { repository, run } from "../../tools/checks/run.ts";
import { chartFolder } from "../chart/helm.ts";
import { type Cluster, startCluster } from "./cluster.ts";
import { startKubelets } from "./kubelet.ts";
import { buildHelm, currentHelms } from "./programs.ts";

// What `npm run test:examples` runs: the chart is installed, upgraded and taken back on a control plane of Kubernetes.

type Deployment = {
  spec: { replicas: number };
  status: { readyReplicas?: number; updatedReplicas?: number };
};

const owned = new AsyncDisposableStack();
let cluster: Cluster;
let folder = "";
const skip = findProgram("go") && findProgram("kubectl") ? false : "go or kubectl is not on this machine";

before(async () => {
  if (skip) return;
  folder = owned.use(await mkdtempDisposable(join(tmpdir(), "control-plane-"))).path;
  cluster = owned.use(await startCluster(folder));
  owned.use(await startKubelets(cluster));
});
after(() => owned.disposeAsync());

const file = join(chartFolder, "ci/minimal-values.yaml");
const waiting = ["--wait", "--timeout", "5m"];
const autoscaled = ["relay.autoscaling.hpa.enabled=true"];

for (const source of currentHelms) {
  describe(source, { skip }, () => {
    const namespace = `shop-${source.slice(source.indexOf("@v") + 2).replaceAll(".", "-")}`;
    const helm = async (...words: string[]): Promise<string> => {
      const program = await buildHelm(source);
      const place = [`HOME=${folder}`, `KUBECONFIG=${cluster.kubeconfig}`];
      const { code, output, errors } = await run("env", [...place, program, "-n", namespace, ...words], repository);
      if (code !== 0) throw new Error(`helm ${words.join(" ")}: ${errors}`);
      return output;
    };
    const upgrade = (...sets: string[]): Promise<string> => {
      const words = ["upgrade", "--install", "shop", chartFolder, "-f", file, "--set", "image.tag=1.0.0"];
      return helm(...words, ...sets.flatMap((set) => ["--set", set]), ...waiting);
    };
    const relay = (): Promise<Deployment> =>
      cluster.api("GET", `/apis/apps/v1/namespaces/${namespace}/deployments/shop-model-relay-relay`);

    /** Sets the number as an autoscaler does. */
    async function scaleTo(replicas: number): Promise<void> {
      const scale = ["scale", "deployment/shop-model-relay-relay", `--replicas=${replicas}`];
      const { code, errors } = await cluster.kubectl("-n", namespace, ...scale);
      assert.equal(code, 0, errors);
      await until("all are ready", async () => (await relay()).status.readyReplicas === replicas);
    }

    /** The least of relays that were asked for and that were ready while something was done. */
    async function least(work: () => Promise<unknown>): Promise<{ asked: number; ready: number }> {
      const found = { asked: Infinity, ready: Infinity };
      let isOver = false;
      const watching = (async () => {
        while (!isOver) {
          const { spec, status } = await relay();
          found.asked = Math.min(found.asked, spec.replicas);
          found.ready = Math.min(found.ready, status.readyReplicas ?? 0);
          await wait(50);
        }
      })();
      await work().finally(() => (isOver = true));
      await watching;
      return found;
    }

    test("is installed into a namespace that enforces the restricted standard", async () => {
      const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
      await cluster.api("POST", "/api/v1/namespaces", { metadata: { name: namespace, labels } });
      await upgrade("relay.replicas=4");
      assert.equal((await relay()).status.readyReplicas, 4);
    });

    test("turning the autoscaler on keeps every relay, and so does an upgrade after it has scaled", async () => {
      assert.deepEqual(await least(() => upgrade(...autoscaled)), { asked: 4, ready: 4 });
      await scaleTo(7);
      assert.deepEqual(await least(() => upgrade(...autoscaled, "relay.podAnnotations.changed=yes")), {
        asked: 7,
        ready: 7,
      });
    });

    test("rollback loses relays or is refused; an upgrade with the values of before keeps them", async () => {
      const rollback = () => helm("rollback", "shop", "2", ...waiting);
      // Helm 4 applies on the server, where the number is the scaler's.
      if (source.includes("@v4")) await assert.rejects(rollback, /conflict with .*\.spec\.replicas/);
      else assert.equal((await least(rollback)).asked, 4);
      await scaleTo(7);
      const before = join(folder, `${namespace}.yaml`);
      await writeFile(before, await helm("get", "values", "shop", "--revision", "2", "-o", "yaml"));
      const back = () => helm("upgrade", "shop", chartFolder, "-f", before, ...waiting);
      assert.deepEqual(await least(back), { asked: 7, ready: 7 });
    });
  });
}
