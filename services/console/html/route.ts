import type { Form } from "./form.ts";
import type { Markup } from "./html.ts";
import type { Action, Role } from "../permissions.ts";
import type { Person } from "../store/people.ts";
import type { Session } from "../store/sessions.ts";

/** The signed-in person of a live session. */
export type Visitor = { session: Session; tokenHash: Buffer; person: Person };

/** A request as the pages see it. */
export type PageRequest = {
  /** Pattern of the path. */
  url: string;
  path: string;
  parameters: Readonly<Record<string, string>>;
  /** The fields after the question mark; empty when missing or repeated. */
  query: (name: string) => string;
  form: Form;
  address: string;
  browser: string;
  /** Aborted when the client disconnects. */
  gone: AbortSignal;
  visitor: Visitor | undefined;
  /** The secret of the browser's own cookie, which it has from its first form on, signed in or not; else empty. */
  browserSecret: string;
  /** The hidden field that every form needs which changes something. */
  csrfField: Markup;
};

/** A request with a complete session. */
export type SignedInRequest = PageRequest & { visitor: Visitor };

/** A request of a person who is permitted to do this in the account. */
export type AccountRequest = SignedInRequest & { accountId: string; roles: readonly Role[] };

/** The response of a route; a flash is shown once, on the next page. */
export type PageResponse = { clearCookie?: true; sessionToken?: string } &
  /** `goesOnTo`: where the browser goes by itself, out of the console, which a redirect after a form may not. */
  (
    | { kind: "page"; status?: number; title: string; body: Markup; actions?: Markup; goesOnTo?: URL }
    | { kind: "redirect"; to: string; flash?: string }
    /** A part of a page, which script puts in the place of the one before. */
    | { kind: "fragment"; body: Markup }
    /** A page whose body ends with pieces that come over time. */
    | { kind: "stream"; title: string; body: Markup; pieces: AsyncIterable<Markup> }
    /** Lines of JSON that come over time, for a script that shows them. */
    | { kind: "lines"; status?: number; lines: AsyncIterable<object> }
    /** A file to keep, which comes over time. */
    | { kind: "file"; name: string; type: string; pieces: AsyncIterable<string | Buffer> }
  );

/** Who has access: everybody, sessions waiting for the second factor, signed-in persons, or those with a permission. */
export type Access = "everybody" | "half" | "signed-in" | { action: Action; isInAccount: boolean };

export type Route = {
  method: "GET" | "POST";
  url: string;
  access: Access;
  /** Whether requests are counted against the few that an address has for guessing. */
  isGuessable?: true;
  /** Most bytes of a form, where that is not 64 KiB. */
  bodyBytes?: number;
  handle: (request: PageRequest) => Promise<PageResponse>;
};

type RoutePath = Pick<Route, "method" | "url" | "isGuessable" | "bodyBytes">;

// The guard in guard.ts has made sure of what these casts say before `handle` runs; a test walks all routes for it.

export const publicRoute = (route: RoutePath, handle: (request: PageRequest) => Promise<PageResponse>): Route => ({
  ...route,
  access: "everybody",
  handle,
});

/** For a session that waits for its second factor. */
export const halfRoute = (route: RoutePath, handle: (request: SignedInRequest) => Promise<PageResponse>): Route => ({
  ...route,
  access: "half",
  handle: (request) => handle(request as SignedInRequest),
});

export const personRoute = (route: RoutePath, handle: (request: SignedInRequest) => Promise<PageResponse>): Route => ({
  ...route,
  access: "signed-in",
  handle: (request) => handle(request as SignedInRequest),
});

/** Below /accounts/:accountId: for whoever may do the action in that account. */
export const accountRoute = (
  route: RoutePath,
  action: Action,
  handle: (request: AccountRequest) => Promise<PageResponse>,
): Route => ({
  ...route,
  url: `/accounts/:accountId${route.url}`,
  access: { action, isInAccount: true },
  handle: (request) => handle(request as AccountRequest),
});

/** Below /operator: for whoever may do the action in the whole installation. */
export const operatorRoute = (
  route: RoutePath,
  action: Action,
  handle: (request: SignedInRequest) => Promise<PageResponse>,
): Route => ({
  ...route,
  url: `/operator${route.url}`,
  access: { action, isInAccount: false },
  handle: (request) => handle(request as SignedInRequest),
});

export const get = (url: string) => ({ method: "GET", url }) as const;
export const post = (url: string) => ({ method: "POST", url }) as const;

/** `actions`: what there is to do on the page, beside its heading. */
type PageOptions = { status?: number; sessionToken?: string; goesOnTo?: URL; actions?: Markup };

export function page(title: string, body: Markup, more: PageOptions = {}): PageResponse {
  return { kind: "page", title, body, ...more };
}

/** The form again, with its errors. */
export const again = (title: string, body: Markup): PageResponse => ({ kind: "page", status: 422, title, body });

export function redirect(to: string, flash?: string): PageResponse {
  return flash === undefined ? { kind: "redirect", to } : { kind: "redirect", to, flash };
}
