import { RelayService } from "#proto/relay/v1/relay_pb.ts";
import { serveGrpc, unaryHandlers, type GrpcListener, type GrpcListenOptions } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import { tellState, type StateParts } from "./state.ts";

const drainMs = 1_000;

/** Serves the state of this process (port 0: any free one), which is gathered anew for each who asks. */
export function serveState(
  place: Omit<GrpcListenOptions, "drainMs">,
  gather: () => StateParts,
  log: Logger,
): Promise<GrpcListener> {
  const handlers = unaryHandlers(RelayService, { getState: async () => tellState(gather()) }, log);
  return serveGrpc([[RelayService, handlers]], { ...place, drainMs });
}
