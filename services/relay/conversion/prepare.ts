import { releaseBuffer } from "../http/body-memory.ts";
import type { BodyShare } from "../http/body-budget.ts";
import type { Model } from "../catalog/models.ts";
import type { Route } from "../catalog/choose.ts";
import { leftOutIds, withOpenIds, type BoundState } from "./bind-state.ts";
import {
  writeRequest,
  writeSingleRequest,
  parseConversation,
  type Conversion,
  type ParsedConversation,
} from "./convert.ts";
import { clients, providers, upstreamDialectFor, upstreamDialects } from "../dialects/conversions.ts";
import type { CallerRequest, SingleConversion } from "../dialects/conversion.ts";
import type { Dialect, Envelope, UpstreamDialect, UpstreamDialectName } from "../dialects/dialect.ts";
import { embedFetched, urlsToFetch } from "../dialects/fetched-media.ts";
import { isHoldingState } from "../dialects/json/request-body.ts";
import { singleConversionFor, type SingleCell } from "../dialects/single-conversions.ts";
import { CallFailure } from "../failures.ts";
import { fetchUrls, type FetchedMedia, type MediaFetching } from "./fetch-media.ts";
import type { Metrics } from "../metrics.ts";
import type { ThreadSession } from "../threads/threads.ts";
import { refuseTier, refuseUnpriced } from "../charge/refuse-unpriced.ts";

type Single = { conversion: SingleConversion; request: Record<string, unknown> };

/** A request in the words of the upstream's dialect. */
export type Prepared = {
  dialect: UpstreamDialect;
  body: Buffer;
  /** How the answer becomes one of the caller's dialect; undefined where the upstream speaks it. */
  conversion: (Conversion & { asked: CallerRequest }) | undefined;
  /** The same for a request that is no conversation, whose answer is always read whole. */
  single?: Single;
  /** Fields of the request that got lost, by the caller's names. */
  dropped: readonly string[];
  /** Where the request is, when it is in a thread. */
  session?: ThreadSession;
};

/** One request on its way to the upstreams that may be asked for it. Its methods do not stand alone. */
export type Preparation = {
  /** The request for a route; the same route is prepared once. Throws `field_invalid`. A large one comes later. */
  for(route: Route): Prepared | Promise<Prepared>;
  /**
   * Reads what the caller says, where one of the routes needs a conversion, and fetches what it names by address;
   * undefined where nothing is to be fetched, as nearly always.
   */
  readFor(routes: readonly Route[], fetching: () => Promise<MediaFetching>): Promise<void> | undefined;
  /** Gives back what the request takes of memory: it will be neither sent nor read any more. */
  forget(): void;
};

export type PreparationInput = {
  envelope: Envelope;
  dialect: Dialect;
  model: Model;
  inputTokens: number;
  /** What the ids of a provider's state that it names are called at a route. */
  editsFor?: BoundState["editsFor"] | undefined;
  /** Keeps items of answers for their caller. */
  remember?: (item: unknown) => void;
  /** Opens a share of the budget for bodies. */
  share: () => Pick<BodyShare, "claim">;
};

// An object in the engine's memory, and what becomes of it in another dialect.
const bytesOfValue = 256;
const smallBytes = 64 * 1024;

/** Holds what a request takes as objects, beside its bytes. Throws `service_unavailable` when there is no room. */
export function claimReading(
  { length, values }: { length: number; values: number },
  share: () => Pick<BodyShare, "claim">,
): void {
  if (length <= smallBytes || share().claim(Math.max(length, values * bytesOfValue))) return;
  throw new CallFailure({ name: "service_unavailable", cause: "no room to read the body as a whole" });
}

/** API spec, Conversion between formats: "response_format has no effect", unless the catalog says otherwise. */
const takesFormatOf = ({ name }: Dialect, { structuredOutput }: Model): boolean =>
  structuredOutput === undefined ? name !== "openai-chat" : structuredOutput === "provider";

type Cell = Conversion & { spoken: UpstreamDialectName };

/** The conversion by which a route is reached; undefined where its upstream speaks the caller's dialect. */
export function cellOf({ upstream }: Route, dialect: Dialect): Cell | undefined {
  const spoken = upstreamDialectFor(dialect.name, upstream.dialects);
  if (spoken === undefined || spoken === dialect.name) return undefined;
  const [client, provider] = [clients[dialect.name], providers[spoken]];
  return client && provider && { client, provider, spoken };
}

/** The same for a request that is no conversation. */
export function singleCellOf({ upstream }: Route, { name }: Dialect): SingleCell | undefined {
  return upstream.dialects.includes(name) ? undefined : singleConversionFor(name, upstream.dialects);
}

/** Whether a route takes a request as it came, but for single fields. */
export const isPassed = (route: Route, dialect: Dialect): boolean =>
  !cellOf(route, dialect) && !singleCellOf(route, dialect);

function prepareSingle(envelope: Envelope, { conversion, spoken }: SingleCell, upstreamModel: string): Prepared {
  const { path, body, dropped, request } = writeSingleRequest(envelope, conversion, upstreamModel);
  const dialect: UpstreamDialect = {
    ...upstreamDialects[spoken],
    upstreamPath: () => path,
    readReply: conversion.readReply,
  };
  return { dialect, body, conversion: undefined, single: { conversion, request }, dropped };
}

export class RequestPreparation implements Preparation {
  private readonly preparing: PreparationInput;
  private parsed: ParsedConversation | undefined;
  private route: Route | undefined;
  private prepared: Prepared | undefined;
  private isClaimed = false;

  constructor(preparing: PreparationInput) {
    this.preparing = preparing;
  }

  for(route: Route): Prepared {
    if (this.prepared && this.route === route) return this.prepared;
    this.prepared = this.prepare(route);
    this.route = route;
    return this.prepared;
  }

  readFor(routes: readonly Route[], fetching: () => Promise<MediaFetching>): Promise<void> | undefined {
    const urls = this.addressesFor(routes);
    return urls.length === 0 ? undefined : this.fetch(urls, fetching);
  }

  /** Reads what the caller says, where one of the routes needs what stands behind addresses; gives those. */
  addressesFor(routes: readonly Route[]): string[] {
    const { dialect } = this.preparing;
    const route = routes.find((candidate) => cellOf(candidate, dialect)?.provider.readsNoAddresses);
    const cell = route && cellOf(route, dialect);
    if (!cell) return [];
    this.parsed = this.parse(cell);
    return urlsToFetch(this.parsed.conversation);
  }

  /** Puts what was fetched in the place of its address. */
  embed(fetched: FetchedMedia): void {
    if (!this.parsed) return;
    this.parsed = { ...this.parsed, conversation: embedFetched(this.parsed.conversation, fetched) };
  }

  forget(): void {
    if (this.prepared) releaseBuffer(this.prepared.body);
    releaseBuffer(this.preparing.envelope.body.bytes);
  }

  private prepare(route: Route): Prepared {
    const { envelope, dialect, model, inputTokens, remember } = this.preparing;
    const cell = cellOf(route, dialect);
    if (!cell) return this.preparePassed(route);
    const parsed = (this.parsed ??= this.parse(cell));
    const { maxOutputTokens, quirks } = model;
    const takesOutputFormat = takesFormatOf(dialect, model);
    const hasSearchPrice = (model.prices.webSearches ?? model.prices.toolCalls) !== undefined;
    const target = { model: route.model, maxOutputTokens, quirks, takesOutputFormat, hasSearchPrice };
    const { body, dropped } = writeRequest(parsed, cell, target);
    if (!dropped.includes("service_tier")) refuseTier(envelope, model);
    const { wantsStreamUsage } = envelope;
    const asked: CallerRequest = { model: envelope.model, wantsStreamUsage, request: parsed.request, inputTokens };
    // Who wants nothing stored sends everything again.
    if (remember && parsed.request["store"] !== false) asked.remember = remember;
    return { dialect: upstreamDialects[cell.spoken], body, conversion: { ...cell, asked }, dropped };
  }

  private preparePassed(route: Route): Prepared {
    const { envelope, dialect, model, editsFor } = this.preparing;
    const single = singleCellOf(route, dialect);
    const edits = editsFor?.(route) ?? [];
    if (single || isHoldingState(envelope.body) || edits.length > 0) this.claimOnce();
    if (single) return prepareSingle(envelope, single, route.model);
    refuseUnpriced(envelope, model, dialect);
    const opened = withOpenIds(envelope, edits, dialect);
    const dropped = opened.removed ?? [];
    return { dialect, body: dialect.prepareBody(opened, route.model), conversion: undefined, dropped };
  }

  private parse({ client }: Cell): ParsedConversation {
    this.claimOnce();
    return parseConversation(this.preparing.envelope, client);
  }

  private claimOnce(): void {
    const { bytes, values } = this.preparing.envelope.body;
    if (!this.isClaimed) claimReading({ length: bytes.length, values }, this.preparing.share);
    this.isClaimed = true;
  }

  private async fetch(urls: string[], fetching: () => Promise<MediaFetching>): Promise<void> {
    this.embed(await fetchUrls(urls, await fetching()));
  }
}

/** Prepares one request of a caller. */
export function createPreparation(preparing: PreparationInput): RequestPreparation {
  return new RequestPreparation(preparing);
}

/** Refuses a request that would lose fields on its way, for callers who want that. Throws `field_invalid`. */
export function refuseLosses({ dropped }: Pick<Prepared, "dropped">): void {
  const [name] = dropped;
  if (name === undefined) return;
  const detail = `field ${name} cannot be carried to the provider of this model`;
  throw new CallFailure({ name: "field_invalid", detail });
}

const knownLosses = new Set([
  leftOutIds,
  ...Object.values(clients).flatMap(({ lossNames }) => Object.values(lossNames)),
]);

/** Counts what got lost. Callers may name fields as they like; only names of ours become labels. */
export function countLosses(
  { dropped }: Pick<Prepared, "dropped">,
  { droppedFields }: Pick<Metrics, "droppedFields">,
): void {
  for (const field of dropped) droppedFields.inc({ field: knownLosses.has(field) ? field : "other" });
}
