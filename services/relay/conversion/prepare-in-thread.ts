import type { Route } from "../catalog/choose.ts";
import type { Model } from "../catalog/models.ts";
import { upstreamDialects } from "../dialects/conversions.ts";
import type { CallerRequest } from "../dialects/conversion.ts";
import type { Envelope } from "../dialects/dialect.ts";
import { releaseBuffer } from "../http/body-memory.ts";
import type { HeaderFacts, ModelFacts, PreparedFacts, RouteFacts } from "../threads/messages.ts";
import type { ThreadSession } from "../threads/threads.ts";
import { fetchUrls, type FetchedMedia, type MediaFetching } from "./fetch-media.ts";
import {
  cellOf,
  claimReading,
  singleCellOf,
  type Preparation,
  type Prepared,
  type PreparationInput,
} from "./prepare.ts";

type InThread = PreparationInput & {
  session: ThreadSession;
  headers: HeaderFacts;
  /** Bytes of the request. */
  length: number;
  /** Whether state of other providers' models must be taken out of it. */
  isHoldingState: boolean;
};

const routeFacts = (route: Route, { editsFor }: PreparationInput): RouteFacts => ({
  spoken: route.upstream.dialects,
  model: route.model,
  edits: editsFor?.(route) ?? [],
});

const modelFacts = ({ routes: _, ...facts }: Model): ModelFacts => facts;

/** A request that a thread prepares, which holds its bytes. */
class ThreadPreparation implements Preparation {
  private readonly preparing: InThread;
  private fetched: FetchedMedia | undefined;
  private routes = 0;
  private route: Route | undefined;
  private prepared: Prepared | Promise<Prepared> | undefined;
  private body: Buffer | undefined;
  private isClaimed = false;
  private isAnswerRead = false;

  constructor(preparing: InThread) {
    this.preparing = preparing;
  }

  for(route: Route): Prepared | Promise<Prepared> {
    if (this.prepared && this.route === route) return this.prepared;
    this.route = route;
    return (this.prepared = this.prepare(route));
  }

  readFor(routes: readonly Route[], fetching: () => Promise<MediaFetching>): Promise<void> | undefined {
    const { dialect } = this.preparing;
    this.routes = routes.length;
    const isFetching = routes.some((candidate) => cellOf(candidate, dialect)?.provider.readsNoAddresses);
    return isFetching ? this.fetch(routes, fetching) : undefined;
  }

  forget(): void {
    // The thread may still have to read the answer, behind a caller who has left; the call ends the session.
    if (!this.isAnswerRead) this.preparing.session.forget();
    releaseBuffer(this.preparing.envelope.body.bytes);
    if (this.body) releaseBuffer(this.body);
  }

  private async prepare(route: Route): Promise<Prepared> {
    const { session, model, dialect, headers, envelope, isHoldingState, inputTokens } = this.preparing;
    const cell = cellOf(route, dialect);
    const single = cell ? undefined : singleCellOf(route, dialect);
    if (cell || single || isHoldingState) this.claimOnce();
    this.isAnswerRead = single !== undefined;
    const told = await session.work<"prepare">({
      kind: "prepare",
      dialect: dialect.name,
      headers,
      model: modelFacts(model),
      route: routeFacts(route, this.preparing),
      fetched: this.fetched,
      isLast: this.routes === 1,
    });
    const body = (this.body = Buffer.from(told.body.buffer));
    const common = { body, dropped: told.dropped, session };
    if (cell) {
      const asked = askedOf(envelope, told, inputTokens);
      const prepared = { ...common, dialect: upstreamDialects[cell.spoken], conversion: { ...cell, asked } };
      return (this.prepared = prepared);
    }
    if (!single) return (this.prepared = { ...common, dialect, conversion: undefined });
    const { conversion, spoken } = single;
    const path = told.path ?? "";
    const upstream = { ...upstreamDialects[spoken], upstreamPath: () => path, readReply: conversion.readReply };
    // The thread knows the request.
    return (this.prepared = {
      ...common,
      dialect: upstream,
      conversion: undefined,
      single: { conversion, request: {} },
    });
  }

  private claimOnce(): void {
    const { length, envelope, share } = this.preparing;
    if (!this.isClaimed) claimReading({ length, values: envelope.body.values }, share);
    this.isClaimed = true;
  }

  private async fetch(routes: readonly Route[], fetching: () => Promise<MediaFetching>): Promise<void> {
    const { session, model, dialect, headers } = this.preparing;
    this.claimOnce();
    const urls = await session.work<"understand">({
      kind: "understand",
      dialect: dialect.name,
      headers,
      model: modelFacts(model),
      routes: routes.map((route) => routeFacts(route, this.preparing)),
    });
    if (urls.length > 0) this.fetched = await fetchUrls(urls, await fetching());
  }
}

function askedOf(
  { model, wantsStreamUsage }: Envelope,
  { request = {} }: PreparedFacts,
  inputTokens: number,
): CallerRequest {
  return { model, wantsStreamUsage, request, inputTokens };
}

/** Prepares one request whose bytes are in a thread. */
export function createThreadPreparation(preparing: InThread): Preparation {
  return new ThreadPreparation(preparing);
}
