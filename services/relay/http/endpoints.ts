import type { Model } from "../catalog/models.ts";
import { upstreamDialectFor } from "../dialects/conversions.ts";
import { dialectNames, type DialectName } from "../dialects/dialect.ts";
import { dialects } from "../dialects/index.ts";
import { CallFailure } from "../failures.ts";
import type { CheckKey } from "./take-body.ts";
import { videosPath } from "./paths.ts";

/** Paths at which a model can be called: it is offered there, and one of its upstreams can be spoken to from there. */
export function endpointsOf({ dialects: offered, routes, video }: Model, offersVideos: boolean): string[] {
  const isReached = (name: DialectName): boolean =>
    offered.has(name) && routes.some(({ upstream }) => upstreamDialectFor(name, upstream.dialects));
  const paths = dialectNames.filter(isReached).map((name) => dialects[name].path);
  return video && offersVideos ? [...paths, videosPath] : paths;
}

/** A model that was asked for at an endpoint which does not serve it. */
type Misplaced = { model: Model; path: string; offersVideos: boolean; checkKey: CheckKey };

/**
 * Tells where a model is served; to a key that may not use it, it is a model like any other that is unknown. Rejects
 * with `wrong_endpoint` or `model_unavailable`, or with what a wrong key is told.
 */
export async function refuseEndpoint({ model, path, offersVideos, checkKey }: Misplaced): Promise<never> {
  const { id } = model;
  const endpoints = endpointsOf(model, offersVideos);
  const { models: allowed } = await checkKey();
  const mayUse = allowed.length === 0 || allowed.includes(id);
  if (endpoints.length === 0 || !mayUse) throw new CallFailure({ name: "model_unavailable", detail: id });
  const detail = `${id} is not served at ${path} but at ${endpoints.join(", ")}`;
  throw new CallFailure({ name: "wrong_endpoint", detail });
}
