import type { Variables } from "../../../tools/checks/readme-tables.ts";
import { type Container, type KubeObject, type Pod, podsOf, type Variable } from "../objects.ts";

/** Variables that no service declares: Node's own, and one that names the folder in a backup's arguments. */
const foreign = ["NODE_OPTIONS", "NODE_EXTRA_CA_CERTS", "UV_THREADPOOL_SIZE", "POD_NAME", "TMPDIR"];

const declaredDefault = (variables: Variables, name: string): unknown =>
  (variables.properties[name] as { default?: unknown } | undefined)?.default;

/** Calls look with each container of a service and what that service declares; `migrate` counts as one when given. */
function eachService(
  objects: KubeObject[],
  services: Map<string, Variables>,
  look: (container: Container, variables: Variables, pod: Pod) => string[],
): string[] {
  return podsOf(objects).flatMap((pod) => {
    const variables = services.get(pod.component);
    if (!variables) return [];
    return pod.spec.containers.flatMap((container) =>
      look(container, variables, pod).map((problem) => `${pod.owner}: ${problem}`),
    );
  });
}

/** Every variable that a pod sets is one that its service declares, or that the operator adds, and is set once. */
export function variablesAreDeclared(
  objects: KubeObject[],
  services: Map<string, Variables>,
  given: string[] = [],
): string[] {
  return eachService(objects, services, ({ env = [] }, { properties }) => {
    const names = env.map(({ name }) => name);
    return [
      ...names
        .filter((name) => !(name in properties) && ![...foreign, ...given].includes(name))
        .map((name) => `${name} is not declared in config.ts`),
      ...names.filter((name, index) => names.indexOf(name) !== index).map((name) => `${name} is set twice`),
    ];
  });
}

const isGiven = ({ value, valueFrom }: Variable): boolean => valueFrom !== undefined || (value ?? "") !== "";

/** Every variable without a default is set to something. */
export function requiredVariablesAreSet(objects: KubeObject[], services: Map<string, Variables>): string[] {
  return eachService(objects, services, ({ env = [] }, { required = [], properties }) =>
    required
      .filter((name) => declaredDefault({ properties }, name) === undefined)
      .filter((name) => !env.some((variable) => variable.name === name && isGiven(variable)))
      .map((name) => `${name} must be set`),
  );
}

/** The pod's ports are those that the service listens at, on all addresses and not only the pod's own. */
export function portsMatchVariables(objects: KubeObject[], services: Map<string, Variables>): string[] {
  return eachService(objects, services, ({ env = [], ports = [] }, variables) => {
    const told = (name: string): unknown =>
      env.find((variable) => variable.name === name)?.value ?? declaredDefault(variables, name);
    const listening = ["HTTP", "OPS", "GRPC"].filter((name) => `${name}_PORT` in variables.properties);
    return listening.flatMap((name) => {
      const port = ports.find((one) => one.name === name.toLowerCase())?.containerPort;
      return [
        ...(String(port) === String(told(`${name}_PORT`))
          ? []
          : [`port ${name.toLowerCase()} is ${port}, the service listens at ${String(told(`${name}_PORT`))}`]),
        ...(["0.0.0.0", "::"].includes(String(told(`${name}_HOST`))) ? [] : [`${name}_HOST is only the pod's own`]),
      ];
    });
  });
}
