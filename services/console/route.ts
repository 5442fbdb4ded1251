import type { Form } from "./form.ts";
import type { Markup } from "./html.ts";
import type { Action, Role } from "./permissions.ts";
import type { Person } from "./store/people.ts";
import type { Session } from "./store/sessions.ts";

/** Who asks: a live session with its person. */
export type Visitor = { session: Session; tokenHash: Buffer; person: Person };

/** A request as the pages see it. */
export type Asked = {
  /** Pattern of the path. */
  url: string;
  path: string;
  parameters: Readonly<Record<string, string>>;
  /** The fields after the question mark; empty when missing or repeated. */
  query: (name: string) => string;
  form: Form;
  address: string;
  browser: string;
  visitor: Visitor | undefined;
  /** The hidden field that every form needs which changes something. */
  csrfField: Markup;
};

/** Asked with a whole session. */
export type SignedIn = Asked & { visitor: Visitor };

/** Asked by somebody who may do it in this account. */
export type InAccount = SignedIn & { accountId: string; roles: readonly Role[] };

/** What the next page says, once. */
export type Answer = { clearCookie?: true; sessionToken?: string } & (
  | { kind: "page"; status?: number; title: string; body: Markup }
  | { kind: "redirect"; to: string; flash?: string }
);

/** Who may come: everybody, whoever gave the password and owes the second factor, the signed-in, or whoever may. */
export type Access = "everybody" | "half" | "signed-in" | { action: Action; isInAccount: boolean };

export type Route = {
  method: "GET" | "POST";
  url: string;
  access: Access;
  /** Whether requests are counted against the few that an address has for guessing. */
  isGuessable?: true;
  answer: (asked: Asked) => Promise<Answer>;
};

type Place = Pick<Route, "method" | "url" | "isGuessable">;

// The guard in guard.ts has made sure of what these casts say before `answer` runs; a test walks all routes for it.

export const publicRoute = (place: Place, answer: (asked: Asked) => Promise<Answer>): Route => ({
  ...place,
  access: "everybody",
  answer,
});

/** For a session that waits for its second factor. */
export const halfRoute = (place: Place, answer: (asked: SignedIn) => Promise<Answer>): Route => ({
  ...place,
  access: "half",
  answer: (asked) => answer(asked as SignedIn),
});

export const personRoute = (place: Place, answer: (asked: SignedIn) => Promise<Answer>): Route => ({
  ...place,
  access: "signed-in",
  answer: (asked) => answer(asked as SignedIn),
});

/** Below /accounts/:accountId: for whoever may do the action in that account. */
export const accountRoute = (place: Place, action: Action, answer: (asked: InAccount) => Promise<Answer>): Route => ({
  ...place,
  url: `/accounts/:accountId${place.url}`,
  access: { action, isInAccount: true },
  answer: (asked) => answer(asked as InAccount),
});

/** Below /operator: for whoever may do the action in the whole installation. */
export const operatorRoute = (place: Place, action: Action, answer: (asked: SignedIn) => Promise<Answer>): Route => ({
  ...place,
  url: `/operator${place.url}`,
  access: { action, isInAccount: false },
  answer: (asked) => answer(asked as SignedIn),
});

export const get = (url: string) => ({ method: "GET", url }) as const;
export const post = (url: string) => ({ method: "POST", url }) as const;

export function page(title: string, body: Markup, more: { status?: number; sessionToken?: string } = {}): Answer {
  return { kind: "page", title, body, ...more };
}

/** The form again, with what is wrong in it. */
export const again = (title: string, body: Markup): Answer => ({ kind: "page", status: 422, title, body });

export function redirect(to: string, flash?: string): Answer {
  return flash === undefined ? { kind: "redirect", to } : { kind: "redirect", to, flash };
}
