import { type Container, containersOf, type KubeObject, type Pod, podsOf, type Probe } from "../objects.ts";

/** Seconds that every service needs at least, after it has drained, to flush and to close what it has open. */
const marginSeconds = 15;

/** Pods that run until they are told to stop, and so are probed and drained. */
export const isServing = ({ kind }: Pod): boolean => !["CronJob", "Job", "Pod"].includes(kind);

/** Services of this project, which drain; the throw-away stores of a development set do not. */
const isOurs = ({ component }: Pod): boolean => !component.startsWith("dev-");

const eachContainer = (objects: KubeObject[], look: (container: Container, pod: Pod) => string[]): string[] =>
  podsOf(objects).flatMap((pod) =>
    containersOf(pod).flatMap((container) =>
      look(container, pod).map((problem) => `${pod.owner} ${container.name}: ${problem}`),
    ),
  );

/** What the "restricted" profile of Kubernetes' pod security asks for, and a root that cannot be written. */
export function restrictedPods(objects: KubeObject[]): string[] {
  const pods = podsOf(objects).flatMap(({ owner, spec }) => [
    ...(spec.hostNetwork || spec.hostPID || spec.hostIPC ? [`${owner}: shares a namespace of the node`] : []),
    ...(spec.volumes ?? []).filter(({ hostPath }) => hostPath).map(({ name }) => `${owner}: ${name} is a hostPath`),
  ]);
  const containers = eachContainer(objects, ({ securityContext: own = {} }, { spec }) => {
    const merged = { ...spec.securityContext, ...own };
    const rules: [boolean, string][] = [
      [merged.runAsNonRoot === true, "runAsNonRoot is not true"],
      [merged.runAsUser !== 0, "runs as root"],
      [merged.seccompProfile?.type === "RuntimeDefault", "seccompProfile is not RuntimeDefault"],
      [own.allowPrivilegeEscalation === false, "allowPrivilegeEscalation is not false"],
      [own.privileged !== true, "is privileged"],
      [own.capabilities?.drop?.includes("ALL") === true, "does not drop ALL capabilities"],
      [(own.capabilities?.add ?? []).length === 0, "adds capabilities"],
      [own.readOnlyRootFilesystem === true, "can write its root"],
    ];
    return rules.filter(([holds]) => !holds).map(([, problem]) => problem);
  });
  return [...pods, ...containers];
}

/** Nothing here asks Kubernetes anything, so no pod gets a token for it. */
export function noTokens(objects: KubeObject[]): string[] {
  return podsOf(objects)
    .filter(({ spec }) => spec.automountServiceAccountToken !== false)
    .map(({ owner }) => `${owner}: automountServiceAccountToken is not false`);
}

/** What runs once and fails leaves its pod behind, and so its log: one that is started again is deleted in the end. */
export function failuresAreKept(objects: KubeObject[]): string[] {
  return podsOf(objects)
    .filter((pod) => !isServing(pod) && pod.spec.restartPolicy !== "Never")
    .map(({ owner }) => `${owner}: restartPolicy is not Never`);
}

/** CPU and memory are requested and memory is limited; CPU is not: a limit would only delay streams. */
export function resourcesGiven(objects: KubeObject[]): string[] {
  return eachContainer(objects, ({ resources }) => {
    const wanted: [string, unknown][] = [
      ["requests.cpu", resources?.requests?.["cpu"]],
      ["requests.memory", resources?.requests?.["memory"]],
      ["limits.memory", resources?.limits?.["memory"]],
    ];
    return wanted.filter(([, value]) => value === undefined).map(([name]) => `no resources.${name}`);
  });
}

/** Every image has a digest or a tag that says which it is. */
export function imagesPinned(objects: KubeObject[]): string[] {
  return eachContainer(objects, ({ image }) =>
    /@sha256:[0-9a-f]{64}$/.test(image) || /:(?!latest$)[\w][\w.-]*$/.test(image)
      ? []
      : [`image ${image} is not pinned`],
  );
}

function probeProblem(name: string, probe: Probe | undefined, path: string): string[] {
  if (!probe) return [`no ${name}`];
  return probe.httpGet && probe.httpGet.path !== path ? [`${name} asks ${probe.httpGet.path}, not ${path}`] : [];
}

/** Life is asked of /livez, readiness of /readyz; a throw-away store is only asked whether it is ready. */
export function probesGiven(objects: KubeObject[]): string[] {
  return podsOf(objects)
    .filter(isServing)
    .flatMap((pod) =>
      pod.spec.containers.flatMap(({ startupProbe, livenessProbe, readinessProbe }) =>
        [
          ...(isOurs(pod) ? probeProblem("startupProbe", startupProbe, "/livez") : []),
          ...(isOurs(pod) ? probeProblem("livenessProbe", livenessProbe, "/livez") : []),
          ...probeProblem("readinessProbe", readinessProbe, "/readyz"),
        ].map((problem) => `${pod.owner}: ${problem}`),
      ),
    );
}

/** The pod is killed only after it was taken out of its Service and has drained, with a margin. */
export function graceIsEnough(objects: KubeObject[]): string[] {
  return podsOf(objects)
    .filter((pod) => isServing(pod) && isOurs(pod))
    .flatMap(({ owner, spec }) =>
      spec.containers.flatMap(({ lifecycle, env }) => {
        const sleepSeconds = lifecycle?.preStop?.sleep?.seconds;
        if (sleepSeconds === undefined) return [`${owner}: no preStop sleep`];
        const drainMs = env?.find(({ name }) => name === "DRAIN_MS")?.value;
        if (drainMs === undefined) return [`${owner}: DRAIN_MS is not set`];
        const needed = sleepSeconds + Math.ceil(Number(drainMs) / 1_000) + marginSeconds;
        const given = spec.terminationGracePeriodSeconds ?? 30;
        return given >= needed ? [] : [`${owner}: ${given} s of grace, ${needed} s are needed`];
      }),
    );
}
