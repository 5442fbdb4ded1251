import { containersOf, type KubeObject, podsOf, type Volume } from "../objects.ts";

/** Every mount names a volume of its pod, every volume is mounted, and no two mounts share a path. */
export function mountsExist(objects: KubeObject[]): string[] {
  return podsOf(objects).flatMap((pod) => {
    const volumes = new Set((pod.spec.volumes ?? []).map(({ name }) => name));
    const mounts = containersOf(pod).flatMap(({ name: container, volumeMounts = [] }) =>
      volumeMounts.map(({ name, mountPath }) => ({ name, place: `${container}:${mountPath}` })),
    );
    const mounted = new Set(mounts.map(({ name }) => name));
    const places = mounts.map(({ place }) => place);
    return [
      ...mounts.filter(({ name }) => !volumes.has(name)).map(({ name }) => `${pod.owner}: no volume ${name}`),
      ...[...volumes].filter((name) => !mounted.has(name)).map((name) => `${pod.owner}: ${name} is not mounted`),
      ...places
        .filter((place, index) => places.indexOf(place) !== index)
        .map((place) => `${pod.owner}: two volumes at ${place}`),
    ];
  });
}

/** Every ConfigMap that a pod reads is rendered, or is one that the operator has named in the values. */
export function configMapsExist(objects: KubeObject[], given: string[] = []): string[] {
  const known = new Set([
    ...given,
    ...objects.filter(({ kind }) => kind === "ConfigMap").map(({ metadata }) => metadata.name),
  ]);
  const named = ({ configMap, projected }: Volume): string[] =>
    [configMap, ...(projected?.sources ?? []).map((source) => source.configMap)].flatMap((map) => map?.name ?? []);
  return podsOf(objects).flatMap(({ owner, spec }) =>
    (spec.volumes ?? [])
      .flatMap(named)
      .filter((name) => !known.has(name))
      .map((name) => `${owner}: no ConfigMap ${name}`),
  );
}

/** A file that a variable names lies in a mounted volume. */
export function namedFilesAreMounted(objects: KubeObject[]): string[] {
  return podsOf(objects).flatMap((pod) =>
    containersOf(pod).flatMap(({ env = [], volumeMounts = [] }) =>
      env
        .filter(({ name, value }) => /_(FILE|DIR)$/.test(name) && value)
        .filter(({ value = "" }) => !volumeMounts.some(({ mountPath }) => `${value}/`.startsWith(`${mountPath}/`)))
        .map(({ name, value }) => `${pod.owner}: ${name} names ${value}, which no volume holds`),
    ),
  );
}
