import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  CircuitState,
  type CatalogSchema,
  type GetStateResponseSchema,
  type ModelSchema,
  type UpstreamSchema,
} from "#proto/relay/v1/relay_pb.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import type { CatalogFile } from "#shared/catalog/follow.ts";
import type { Catalog } from "../catalog/catalog.ts";
import { makesText, type Model } from "../catalog/models.ts";
import { endpointsOf } from "../http/endpoints.ts";
import { conditionOf, priceRowsOf } from "../catalog/describe.ts";
import type { RecentCalls } from "../recent-calls.ts";
import type { UpstreamHealth, UpstreamState } from "../upstream/health.ts";

/** What the state of a process is made of. */
export type StateParts = {
  relaySession: string;
  startedAt: Date;
  isDraining: boolean;
  notReady: string[];
  liveCalls: number;
  catalog: Catalog;
  file: Omit<CatalogFile, "text">;
  health: Pick<UpstreamHealth, "look">;
  recentCalls: (model: string) => RecentCalls;
  /** Whether videos can be asked for here. */
  offersVideos: boolean;
  /** The moment in the time of `health`, which is monotonic, and by the clock. */
  now: { monotonicMs: number; clockMs: number };
};

const maxProblemLength = 20_000;

/**
 * The state of a process as its operators are told. Each field is named here: what an upstream holds beside its name,
 * address, dialects and limit (credential, headers, proxy, certificates) is secret or may be.
 */
export function tellState(parts: StateParts): MessageInitShape<typeof GetStateResponseSchema> {
  const { relaySession, startedAt, isDraining, notReady, liveCalls } = parts;
  return {
    relaySession,
    startedAt: timestampFromDate(startedAt),
    isDraining,
    notReady,
    liveCalls: BigInt(liveCalls),
    catalog: tellCatalog(parts),
  };
}

function tellCatalog(parts: StateParts): MessageInitShape<typeof CatalogSchema> {
  const { catalog, file, offersVideos, recentCalls } = parts;
  const models = [...catalog.models.values()];
  const routes = Map.groupBy(
    models.flatMap((model) => model.routes),
    ({ upstream }) => upstream.id,
  );
  return {
    contentHash: file.contentHash,
    loadedAt: timestampFromDate(file.loadedAt),
    problem: file.problem.slice(0, maxProblemLength),
    isMaintenance: catalog.isMaintenance,
    isStored: file.appliedVersion !== undefined,
    appliedVersion: file.appliedVersion ?? 0n,
    models: models.map((model) => {
      const { served, failed } = recentCalls(model.id);
      return { ...tellModel(model, offersVideos), recentServed: BigInt(served), recentFailed: BigInt(failed) };
    }),
    upstreams: catalog.upstreams.map((upstream) => tellUpstream(upstream, routes.get(upstream.id) ?? [], parts)),
  };
}

/** A model with its prices, routes, costs and endpoints. */
export function tellModel(model: Model, offersVideos: boolean): MessageInitShape<typeof ModelSchema> {
  return {
    name: model.id,
    prices: priceRowsOf(model).map(({ model: { priceVersion, prices }, ...condition }) => ({
      version: priceVersion,
      condition: conditionOf(condition),
      unitPriceNanos: prices,
    })),
    routes: model.routes.map(({ upstream, model: name, priority, weight, cost }) => ({
      upstream: upstream.name,
      model: name,
      priority,
      weight,
      ...(cost && { unitCostNanos: cost.prices }),
    })),
    endpoints: endpointsOf(model, offersVideos),
    // Of other models the catalog need not say them.
    ...(makesText(model.dialects) && {
      contextTokens: BigInt(model.contextTokens),
      maxOutputTokens: BigInt(model.maxOutputTokens),
    }),
  };
}

const circuits: Record<UpstreamState["circuit"], CircuitState> = {
  closed: CircuitState.CLOSED,
  "half-open": CircuitState.HALF_OPEN,
  open: CircuitState.OPEN,
  "cooling-down": CircuitState.COOLING_DOWN,
};

function tellUpstream(
  upstream: Upstream,
  routes: Model["routes"],
  { health, now }: StateParts,
): MessageInitShape<typeof UpstreamSchema> {
  const models = routes.map(({ model }) => model);
  const { underWay, circuit, closedUntilMs } = health.look(upstream, models, now.monotonicMs);
  return {
    ...tellAddress(upstream),
    circuit: circuits[circuit],
    ...(closedUntilMs !== undefined && {
      closedUntil: timestampFromMs(Math.round(now.clockMs + closedUntilMs - now.monotonicMs)),
    }),
    liveCalls: underWay,
  };
}

/** What the catalog says of an upstream, without its secrets. */
export function tellAddress({ name, baseUrl, dialects, maxConcurrent }: Upstream) {
  return {
    name,
    // The catalog lets no user, password or query into it; this leaves them out whatever it lets in.
    baseUrl: `${baseUrl.origin}${baseUrl.pathname}`,
    dialects,
    maxCalls: maxConcurrent,
  };
}
