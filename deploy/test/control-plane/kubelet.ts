import { setTimeout as wait } from "node:timers/promises";
import type { Cluster } from "./cluster.ts";

type Pod = {
  metadata: {
    name: string;
    namespace: string;
    deletionTimestamp?: string;
    annotations?: Record<string, string>;
    ownerReferences?: { kind: string }[];
  };
  spec: { nodeName?: string };
  status: { phase?: string; conditions?: { type: string; status: string }[] };
};
type Node = { metadata: { name: string }; spec: { unschedulable?: boolean } };

const lookMs = 200;
const zones = ["a", "b"];

/**
 * Stands for scheduler and kubelets of two nodes, each in a zone of its own: a pod is put on a node that takes pods, is
 * ready at once, and ends at once; one of a Job, or of `helm test`, succeeds. Its containers do not run.
 */
export async function startKubelets({ api }: Cluster): Promise<AsyncDisposable> {
  for (const zone of zones) {
    const labels = { "topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": `node-${zone}` };
    await api("POST", "/api/v1/nodes", { metadata: { name: `node-${zone}`, labels } });
    // Who registers a node says when it may be used; the API server taints it until then.
    await api("PATCH", `/api/v1/nodes/node-${zone}`, { spec: { taints: null } });
    const conditions = [{ type: "Ready", status: "True", reason: "Drill" }];
    await api("PATCH", `/api/v1/nodes/node-${zone}/status`, { status: { conditions } });
  }
  const stop = new AbortController();
  const ended = (async () => {
    while (!stop.signal.aborted) {
      // A pod may go, or be changed, between two requests: then the next look sees it as it is.
      await look(api).catch(() => undefined);
      await wait(lookMs, undefined, { signal: stop.signal }).catch(() => undefined);
    }
  })();
  return {
    [Symbol.asyncDispose]: () => {
      stop.abort();
      return ended;
    },
  };
}

async function look(api: Cluster["api"]): Promise<void> {
  const { items: pods } = await api<{ items: Pod[] }>("GET", "/api/v1/pods");
  const { items: nodes } = await api<{ items: Node[] }>("GET", "/api/v1/nodes");
  const open = nodes.filter(({ spec }) => spec.unschedulable !== true).map(({ metadata }) => metadata.name);
  const counts = new Map(open.map((name) => [name, pods.filter(({ spec }) => spec.nodeName === name).length]));
  await Promise.allSettled(pods.map((pod) => tend(api, pod, counts)));
}

async function tend(api: Cluster["api"], { metadata, spec, status }: Pod, counts: Map<string, number>): Promise<void> {
  const path = `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}`;
  if (metadata.deletionTimestamp !== undefined) {
    await api("DELETE", path, { gracePeriodSeconds: 0 });
    return;
  }
  if (spec.nodeName === undefined) {
    const [target] = [...counts].toSorted(([, one], [, other]) => one - other);
    if (!target) return;
    counts.set(target[0], target[1] + 1);
    await api("POST", `${path}/binding`, {
      metadata: { name: metadata.name },
      target: { kind: "Node", name: target[0] },
    });
  }
  if (status.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True")) return;
  if (status.phase === "Succeeded") return;
  const isTest = metadata.annotations?.["helm.sh/hook"] === "test";
  const ends = isTest || metadata.ownerReferences?.some(({ kind }) => kind === "Job") === true;
  const at = new Date().toISOString().replace(/\.\d+/, "");
  const conditions = ["Ready", "ContainersReady"].map((type) => ({
    type,
    status: ends ? "False" : "True",
    lastTransitionTime: at,
  }));
  const phase = ends ? "Succeeded" : "Running";
  await api("PATCH", `${path}/status`, { status: { phase, startTime: at, conditions } });
}
