import type { Catalog } from "./catalog.ts";
import type { Model } from "./catalog-models.ts";
import type { DialectName } from "./dialects/dialect.ts";
import { CallFailure } from "./failures.ts";

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

function inOrder(routes: Route[], random: () => number): Route[] {
  const drawn = routes.map((route) => ({ route, wait: drawnWait(route.weight, random) }));
  // Equal in both: as they stand in the catalog, because sorting is stable.
  drawn.sort((a, b) => a.route.priority - b.route.priority || (a.wait === b.wait ? 0 : a.wait - b.wait));
  return drawn.map(({ route }) => route);
}

/**
 * Routes whose upstream speaks the dialect, in the order in which they are tried; at least one. A lower priority comes
 * first. Among equals those with a weight are drawn by it (`random`: 0 to below 1), the others follow as they stand in
 * the catalog. Throws `model_unavailable`.
 */
export function chooseRoutes(model: Model, dialect: DialectName, random: () => number = Math.random): Route[] {
  const routes = model.routes.filter(({ upstream }) => upstream.dialects.includes(dialect));
  if (routes.length === 0) throw new CallFailure({ name: "model_unavailable", detail: model.id });
  return routes.length === 1 ? routes : inOrder(routes, random);
}
