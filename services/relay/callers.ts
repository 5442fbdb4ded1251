import type { RelayService } from "#proto/relay/v1/relay_pb.ts";
import type { Callers } from "#shared/grpc/callers.ts";

/** Who may call what here. */
export const callers: Callers<typeof RelayService> = {
  getState: ["console"],
  getCatalogFile: ["console", "admin"],
  checkCatalog: ["console", "admin"],
  testUpstream: ["console"],
};
