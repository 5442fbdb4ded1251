import { hash } from "node:crypto";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { ApplyCatalogRequest, AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";
import { ServiceError } from "#shared/process/errors.ts";

type Applied = Pick<ApplyCatalogRequest, "content" | "author" | "note"> & Partial<ApplyCatalogRequest>;

const at = timestampFromDate(new Date("2026-11-20T08:00:00Z"));

/** From memory: applied catalogs, the first is version 1, and those of files. */
export function createCatalogNeighbour() {
  const neighbour = {
    applied: [] as Applied[],
    kept: [] as string[],
    /** Between an application and its answer. */
    beforeAnswer: async (): Promise<void> => undefined,
  };
  const tell = ({ content, author, note }: Applied, index: number) => {
    const version = BigInt(index + 1);
    return { version, hash: hash("sha256", content), author, note, via: "console", at, hasContent: true };
  };
  const keptAs = (content: string): Applied => ({ content, author: "relay-1", note: "" });
  const handlers = {
    listCatalogs: async () => ({
      applied: neighbour.applied.map(tell).toReversed(),
      kept: neighbour.kept.map((content, index) => ({ ...tell(keptAs(content), index), via: "" })).toReversed(),
    }),
    getCatalog: async ({ isApplied, version }) => {
      const all = isApplied ? neighbour.applied : neighbour.kept.map(keptAs);
      const found = all[Number(version) - 1];
      if (!found) throw new ServiceError("not_found", "there is no such catalog");
      return { content: found.content, version: tell(found, Number(version) - 1) };
    },
    applyCatalog: async (request) => {
      const newest = BigInt(neighbour.applied.length);
      const last = neighbour.applied.at(-1);
      const isSame =
        last && ["content", "author", "note"].every((name) => Reflect.get(last, name) === Reflect.get(request, name));
      // As auth-quota does where an answer was lost.
      if (isSame && request.baseVersion === newest - 1n) return { version: newest };
      if (request.baseVersion !== newest)
        throw new ServiceError("failed_precondition", `version ${newest} is applied by now`);
      neighbour.applied.push(request);
      await neighbour.beforeAnswer();
      return { version: newest + 1n };
    },
  } satisfies Partial<UnaryHandlers<typeof AuthQuotaService>>;
  return Object.assign(neighbour, { handlers });
}
