import type { Catalog } from "./catalog.ts";
import type { Model } from "./models.ts";
import { upstreamDialectFor } from "../dialects/conversions.ts";
import type { DialectName } from "../dialects/dialect.ts";
import { CallFailure } from "../failures.ts";

/** The offered model of a name. Throws `model_unavailable`. */
export function findModel(catalog: Catalog, name: string): Model {
  const model = catalog.models.get(name);
  if (!model) throw new CallFailure({ name: "model_unavailable", detail: name });
  return model;
}

export type Route = Model["routes"][number];

/**
 * Waiting times of which the shortest comes first with a chance that is the route's share of the weights; a route
 * without a weight waits for all that have one.
 */
const drawnWait = (weight: number, random: () => number): number =>
  weight > 0 ? -Math.log(1 - random()) / weight : Infinity;

function inOrder(routes: Route[], needsConversion: (route: Route) => boolean, random: () => number): Route[] {
  const drawn = routes.map((route) => ({
    route,
    isConverted: Number(needsConversion(route)),
    wait: drawnWait(route.weight, random),
  }));
  const byWait = (a: number, b: number): number => (a === b ? 0 : a - b);
  drawn.sort((a, b) => a.route.priority - b.route.priority || a.isConverted - b.isConverted || byWait(a.wait, b.wait));
  return drawn.map(({ route }) => route);
}

/**
 * Routes whose upstream speaks the dialect or can be spoken to from it, in the order in which they are tried; none
 * where the model is not offered in it. A lower priority comes first, and among equals those that need no conversion,
 * for nothing is lost there. Among those the ones with a weight are drawn by it (`random`: 0 to below 1), the others
 * follow as they stand in the catalog.
 */
export function chooseRoutes(model: Model, dialect: DialectName, random: () => number = Math.random): Route[] {
  if (!model.dialects.has(dialect)) return [];
  const canSpeak = ({ upstream }: Route): boolean => upstreamDialectFor(dialect, upstream.dialects) !== undefined;
  // Most models have one route, and an array for each call would be kept with it.
  if (model.routes.length === 1 && model.routes.every(canSpeak)) return model.routes;
  const routes = model.routes.filter(canSpeak);
  return routes.length <= 1 ? routes : inOrder(routes, ({ upstream }) => !upstream.dialects.includes(dialect), random);
}

/** All routes of a model of videos in the order in which they are tried, which is the same but for conversions. */
export function orderVideoRoutes({ routes }: Model, random: () => number = Math.random): Route[] {
  return inOrder(routes, () => false, random);
}
