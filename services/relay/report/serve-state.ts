import { RelayService } from "#proto/relay/v1/relay_pb.ts";
import type { debugServices } from "#shared/grpc/debug.ts";
import { serveGrpc, unaryHandlers, type GrpcListener, type GrpcListenOptions } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import type { CatalogFile } from "#shared/catalog/follow.ts";
import type { CandidateCheck } from "./check-candidate.ts";
import type { UpstreamTest } from "../upstream/test-upstream.ts";
import { tellState, type StateParts } from "./state.ts";

const drainMs = 1_000;

/** What operators can ask a process for. */
export type OperatorRequests = {
  /** Gathers the state anew for each who asks. */
  gather: () => StateParts;
  file: () => Pick<CatalogFile, "contentHash" | "text" | "appliedVersion">;
  check: CandidateCheck;
  test: UpstreamTest;
  debug?: ReturnType<typeof debugServices>;
};

/** Serves what operators ask this process for (port 0: any free one). */
export function serveState(
  place: Omit<GrpcListenOptions, "drainMs">,
  { gather, file, check, test, debug = [] }: OperatorRequests,
  log: Logger,
): Promise<GrpcListener> {
  const service = {
    getState: async () => tellState(gather()),
    getCatalogFile: async () => {
      const { contentHash, text, appliedVersion } = file();
      return { contentHash, text, isStored: appliedVersion !== undefined, appliedVersion: appliedVersion ?? 0n };
    },
    checkCatalog: ({ text }: { text: string }) => check(text),
    testUpstream: test,
  };
  return serveGrpc([[RelayService, unaryHandlers(RelayService, service, log)], ...debug], { ...place, drainMs });
}
