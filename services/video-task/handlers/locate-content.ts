import type { MessageInitShape } from "@bufbuild/protobuf";
import type { LocateContentRequest, LocateContentResponseSchema } from "#proto/video/v1/video_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { noSuchTask, ownedBy } from "./account-tasks.ts";
import type { LiveUpstreams } from "../catalog.ts";
import { providers } from "../providers/index.ts";
import { variants, type Variant } from "../providers/provider.ts";
import { readLocated } from "../store/tasks.ts";

const isVariant = (name: string): name is Variant => variants.some((variant) => variant === name);

/**
 * Tells where a file of a completed task is. Asks nobody: whether the provider still has it is seen when it is fetched.
 * `failed_precondition` for a task that is not completed, `invalid_argument` for a file that the provider does not
 * make, `unavailable` when the catalog no longer has the upstream that opens it.
 */
export async function locateContent(
  { pool, upstreams }: { pool: Pool; upstreams: LiveUpstreams },
  request: LocateContentRequest,
): Promise<MessageInitShape<typeof LocateContentResponseSchema>> {
  const owned = ownedBy(request);
  const { variant } = request;
  if (!isVariant(variant)) throw new ServiceError("invalid_argument", `variant must be one of ${variants.join(", ")}`);
  const row = await readLocated(pool, owned);
  if (!row) throw noSuchTask();
  if (row.state !== "completed") {
    const words = row.state === "failed" ? "the task has failed" : "the task has not ended";
    throw new ServiceError("failed_precondition", words);
  }
  const upstream = upstreams.current().get(row.upstream);
  if (!upstream) throw new ServiceError("unavailable", "the provider of the task cannot be reached now");
  const { upstreamId, contentUrl } = row;
  const task = { upstreamId, contentUrl: contentUrl ?? undefined, baseUrl: upstream.baseUrl };
  const url = providers[row.dialect].locate(task, variant);
  if (url === undefined) throw new ServiceError("invalid_argument", `the provider makes no ${variant}`);
  return { upstream: row.upstream, url };
}
