import { parseAllDocuments } from "yaml";

// What the policies read of rendered objects; that the objects are whole and right is tsc's part (typed-objects.ts).

export type Labels = Record<string, string>;

export type Metadata = { name: string; namespace?: string; labels?: Labels; annotations?: Labels };

export type KubeObject = { apiVersion: string; kind: string; metadata: Metadata; [field: string]: unknown };

export type SecurityContext = {
  runAsNonRoot?: boolean;
  runAsUser?: number;
  readOnlyRootFilesystem?: boolean;
  allowPrivilegeEscalation?: boolean;
  privileged?: boolean;
  seccompProfile?: { type?: string };
  capabilities?: { drop?: string[]; add?: string[] };
};

type KeyReference = { name?: string; key?: string; optional?: boolean };

export type Variable = {
  name: string;
  value?: string;
  valueFrom?: { secretKeyRef?: KeyReference; configMapKeyRef?: KeyReference; fieldRef?: { fieldPath: string } };
};

export type Probe = { httpGet?: { path?: string; port: number | string }; exec?: object; tcpSocket?: object };

export type Container = {
  name: string;
  image: string;
  command?: string[];
  args?: string[];
  env?: Variable[];
  envFrom?: object[];
  ports?: { name?: string; containerPort: number; protocol?: string }[];
  volumeMounts?: { name: string; mountPath: string; subPath?: string; readOnly?: boolean }[];
  securityContext?: SecurityContext;
  resources?: { requests?: Record<string, unknown>; limits?: Record<string, unknown> };
  startupProbe?: Probe;
  livenessProbe?: Probe;
  readinessProbe?: Probe;
  lifecycle?: { preStop?: { sleep?: { seconds: number } } };
};

export type Volume = {
  name: string;
  configMap?: { name?: string };
  secret?: { secretName?: string };
  projected?: { sources: { configMap?: { name?: string } }[] };
  emptyDir?: object;
  hostPath?: object;
};

export type PodSpec = {
  restartPolicy?: string;
  containers: Container[];
  initContainers?: Container[];
  volumes?: Volume[];
  securityContext?: SecurityContext;
  automountServiceAccountToken?: boolean;
  serviceAccountName?: string;
  terminationGracePeriodSeconds?: number;
  dnsConfig?: object;
  hostNetwork?: boolean;
  hostPID?: boolean;
  hostIPC?: boolean;
};

/** A pod as an object makes it: `owner` is like `Deployment/shop-relay`, `component` the label that says what it is. */
export type Pod = { owner: string; kind: string; component: string; labels: Labels; spec: PodSpec };

type Template = { metadata?: { labels?: Labels }; spec: PodSpec };

/** Objects of a stream of YAML documents. Throws where one is no YAML. */
export function readObjects(text: string): KubeObject[] {
  return parseAllDocuments(text).flatMap((document) => {
    const [error] = document.errors;
    if (error) throw error;
    const object = document.toJS() as KubeObject | null;
    return object === null ? [] : [object];
  });
}

/** An object as problems name it. */
export const nameOf = ({ kind, metadata }: KubeObject): string => `${kind}/${metadata.name}`;

/** Objects of one kind, with the spec typed by the caller, who knows it. */
export function ofKind<Spec>(objects: KubeObject[], kind: string): (KubeObject & { spec: Spec })[] {
  return objects.filter((object) => object.kind === kind) as (KubeObject & { spec: Spec })[];
}

const componentLabel = "app.kubernetes.io/component";

/** Whether the set holds throw-away stores, which production never has. */
export function isDevelopment(objects: KubeObject[]): boolean {
  return objects.some(({ metadata }) => metadata.labels?.[componentLabel]?.startsWith("dev-"));
}

function templateOf(object: KubeObject): Template | undefined {
  if (object.kind === "Pod") return { metadata: object.metadata, spec: object["spec"] as PodSpec };
  if (object.kind === "CronJob") {
    return (object["spec"] as { jobTemplate: { spec: { template: Template } } }).jobTemplate.spec.template;
  }
  if (!["Deployment", "StatefulSet", "DaemonSet", "Job"].includes(object.kind)) return undefined;
  return (object["spec"] as { template: Template }).template;
}

/** Every pod that the objects make, tests and jobs too. */
export function podsOf(objects: KubeObject[]): Pod[] {
  return objects.flatMap((object) => {
    const made = templateOf(object);
    if (!made) return [];
    const labels = made.metadata?.labels ?? {};
    const component = labels[componentLabel] ?? "";
    return [{ owner: nameOf(object), kind: object.kind, component, labels, spec: made.spec }];
  });
}

/** All containers of a pod, those that run before the others included. */
export const containersOf = ({ spec }: Pod): Container[] => [...(spec.initContainers ?? []), ...spec.containers];

/** Whether labels have all that a selector's matchLabels ask for. */
export function isSelected(labels: Labels, wanted: Labels): boolean {
  return Object.entries(wanted).every(([key, value]) => labels[key] === value);
}
