import { EndCause } from "#proto/usage/v1/usage_pb.ts";

const names = new Map<EndCause, string>(Object.entries(EndCause).map(([name, cause]) => [cause, name.toLowerCase()]));

/** How calls end, as logs and metrics name it: upstream_cut, drained. */
export const endNames: readonly string[] = [...names.values()];

export const endName = (cause: EndCause): string => names.get(cause) ?? "unknown";
