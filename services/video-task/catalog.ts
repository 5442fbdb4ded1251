import { Type } from "typebox";
import { type CatalogProblem, compileSchema, readCatalog } from "#shared/catalog/document.ts";
import { upstreamSchema, type UpstreamSource } from "#shared/catalog/upstream-schema.ts";
import type { Restrict } from "#shared/catalog/restrict.ts";
import { buildUpstreams, readNamedFrom, type Upstream } from "#shared/catalog/upstreams.ts";
import { videoDialectNames, videoDialectOf } from "#shared/catalog/video-dialects.ts";
import { followCatalogFile, type FollowedCatalog, type FollowOptions } from "#shared/catalog/follow.ts";
import type { Followed } from "#shared/process/follow-files.ts";
import type { Logger } from "#shared/process/log.ts";

/** The upstreams for videos, by name. */
export type Upstreams = ReadonlyMap<string, Upstream>;

export type LiveUpstreams = Pick<Followed<Upstreams>, "current" | "isStale">;

/** The upstreams for videos of a catalog that follows its file. */
export type UpstreamsFollower = FollowedCatalog<Upstreams>;

/** Of upstreams for videos, what the schema says; of others, whatever stands there. */
type Source = { upstreams: Record<string, { dialects?: unknown }> };

// The rest of the catalog is the relay's to check, and may be of a later release than this service.
const schema = {
  type: "object",
  required: ["upstreams"],
  properties: {
    upstreams: {
      type: "object",
      additionalProperties: {
        if: {
          type: "object",
          required: ["dialects"],
          properties: { dialects: { type: "array", contains: { enum: videoDialectNames } } },
        },
        // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
        then: upstreamSchema(Type.String()),
      },
    },
  },
};

const validate = compileSchema<Source>(schema);

const isForVideos = (dialects: unknown): boolean =>
  Array.isArray(dialects) && videoDialectOf({ dialects }) !== undefined;

/**
 * Reads the upstreams for videos from the text of a catalog, and no credential of any other. Throws a CatalogError that
 * names every problem of them with file and line, never with the value of a credential.
 */
export function parseUpstreams(
  text: string,
  file: string,
  environment: NodeJS.ProcessEnv,
  restrict?: Restrict,
): Upstreams {
  const build = ({ upstreams }: Source, problems: CatalogProblem[]): Upstreams => {
    const ours = Object.entries(upstreams).filter(([, { dialects }]) => isForVideos(dialects));
    const sources = Object.fromEntries(ours) as Record<string, UpstreamSource>;
    if (restrict) problems.push(...restrict(sources));
    // What may not be named is not read either.
    if (problems.length > 0) return new Map();
    return buildUpstreams(sources, readNamedFrom(environment), problems);
  };
  return readCatalog(text, file, { validate, build });
}

/**
 * Reads the catalog file and follows its changes without a restart. A first file that cannot be used throws a
 * CatalogError, unless there is a `fallback`, the text of another; a later one is refused in the log and the last good
 * one stays in force. `onReplaced` gets each later one that is taken.
 */
export function followUpstreams(
  file: string,
  environment: NodeJS.ProcessEnv,
  log: Logger,
  { onReplaced, fallback }: FollowOptions<Upstreams> = {},
): UpstreamsFollower {
  const tellReplaced = (upstreams: Upstreams): void => {
    onReplaced?.(upstreams);
    log.info({ upstreams: upstreams.size }, "video upstreams reloaded");
  };
  const take = (text: string): Upstreams => parseUpstreams(text, file, environment);
  return followCatalogFile(file, take, log, { onReplaced: tellReplaced, fallback });
}
