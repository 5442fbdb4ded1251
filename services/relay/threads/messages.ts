import type { UnitLimits } from "../charge/possible-usage.ts";
import type { Model } from "../catalog/models.ts";
import type { Quirk } from "../dialects/conversation.ts";
import type { CallerRequest } from "../dialects/conversion.ts";
import type { DialectName, Tally, UpstreamDialectName } from "../dialects/dialect.ts";
import type { StateEdit } from "../dialects/state-ids.ts";
import type { Failure } from "../failures.ts";
import type { EnvelopeFacts } from "./facts.ts";

/** What a preparation must know of a model; prices of another place are none of it. */
export type ModelFacts = Omit<Model, "routes">;

/** What a preparation must know of a route. */
export type RouteFacts = { spoken: readonly string[]; model: string; edits: readonly StateEdit[] };

/** Headers by which a body is read. */
export type HeaderFacts = Record<string, string>;

/** With what ids are bound to whom they belong: a key, the account and the upstream. */
export type Binding = { key: Uint8Array; account: string; upstream: string };

/** How the answer to a request is read. */
export type ReplyFacts = {
  dialect: DialectName;
  spoken: UpstreamDialectName;
  facts: EnvelopeFacts;
  quirks: ReadonlySet<Quirk>;
  limits: UnitLimits;
  contentType: string;
  /** Where ids in it are sealed. */
  binding?: Binding | undefined;
  /** Of a conversation in another dialect. */
  asked?: CallerRequest | undefined;
  /** Of another request that was converted: the request, where it is not in the thread already. */
  single?: { request: Record<string, unknown> } | undefined;
};

/** What a thread is asked to do with the bytes that it was sent. */
export type Work =
  | { kind: "read"; dialect: DialectName; headers: HeaderFacts }
  | { kind: "understand"; dialect: DialectName; headers: HeaderFacts; model: ModelFacts; routes: RouteFacts[] }
  | {
      kind: "prepare";
      dialect: DialectName;
      headers: HeaderFacts;
      model: ModelFacts;
      route: RouteFacts;
      /** What was fetched for it, by address. */
      fetched: ReadonlyMap<string, { mediaType: string; data: string }> | undefined;
      /** Whether nobody will ask for it again, so that its bytes may be given away. */
      isLast: boolean;
    }
  | { kind: "reply"; reading: ReplyFacts }
  /** From here on no more of the answer is kept than meters it; gives what was kept until now, if it is wanted. */
  | { kind: "overflow"; isWanted: boolean }
  /** What meters such an answer. */
  | { kind: "tally"; reading: ReplyFacts };

/** A request in the words of an upstream. */
export type PreparedFacts = {
  body: Uint8Array<ArrayBuffer>;
  dropped: readonly string[];
  /** Of a conversation in another dialect. */
  request: Record<string, unknown> | undefined;
  /** Of another request that was converted. */
  path: string | undefined;
};

export type TallyResult = {
  tally: Tally;
  /** Whether the provider's counts are none; their mark is an object, which is another one in each thread. */
  hasNoCounts: boolean;
};

export type ReplyResult = TallyResult & { body: Uint8Array<ArrayBuffer>; contentType: string };

/** What each work gives. */
export type WorkResults = {
  read: EnvelopeFacts;
  /** Addresses to fetch. */
  understand: string[];
  prepare: PreparedFacts;
  /** Without a reply: what the caller is told instead, and what its provider has done. */
  reply: { reply?: ReplyResult | undefined; refusal?: string | undefined; refused?: TallyResult | undefined };
  /** Undefined: it is no JSON object so far. */
  overflow: { kept: Uint8Array<ArrayBuffer> } | undefined;
  tally: TallyResult | undefined;
};

/** Which bytes of a session a piece belongs to. */
export type Side = "request" | "answer";

/** What goes into a thread. A session is one call's bytes and what was made of them. */
export type Order =
  | { session: number; side: Side; piece: Uint8Array }
  | { session: number; work: Work }
  | { session: number; isOver: true };

/** What comes back: of one piece of work after the other. */
export type Answer = { told: unknown } | { failure: Failure };

/** Bytes of pieces that the thread has put where they belong, since it told the last time. */
export type Taken = { taken: number };
