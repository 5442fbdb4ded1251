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

/** Upstreams that run the model and speak the dialect, in the order in which they are tried; at least one. */
export function chooseRoutes(model: Model, dialect: DialectName): Route[] {
  const routes = model.routes.filter(({ upstream }) => upstream.dialects.includes(dialect));
  if (routes.length === 0) throw new CallFailure({ name: "model_unavailable", detail: model.id });
  return routes;
}
