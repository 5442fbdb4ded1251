import type { Upstream } from "#shared/catalog/upstreams.ts";
import type { Route } from "../catalog/choose.ts";
import type { Model } from "../catalog/models.ts";
import type { Dialect, Envelope } from "../dialects/dialect.ts";
import { editStateIds, type StateEdit, type StateId } from "../dialects/state-ids.ts";
import { readJsonBody } from "../dialects/json/request-body.ts";
import { CallFailure } from "../failures.ts";
import type { Binding } from "../threads/messages.ts";
import { keysFor } from "./derived-key.ts";
import { openId } from "./sealed-id.ts";

// Providers keep responses, files and more for the account that they serve, which is the operator's and so everybody's.
// Ids of it that the relay shows go out sealed for the account and the upstream; others are nobody's.

/** What ids of an upstream are sealed with. */
const keyOf = keysFor("relay state ids");

export const bindingOf = (upstream: Upstream, account: string): Binding => ({
  key: keyOf(upstream),
  account,
  upstream: upstream.name,
});

/** The ids of a request that are not everybody's with this model. */
export const unsharedIds = ({ stateIds = [] }: Envelope, { sharedState }: Model): readonly StateId[] =>
  stateIds.filter(({ kind }) => !sharedState?.has(kind));

/** Where a request may go that names ids, and what each of these is called there. */
export type BoundState = { routes: Route[]; editsFor: (route: Route) => readonly StateEdit[] };

const refusal = ({ path }: StateId): CallFailure =>
  new CallFailure({
    name: "field_invalid",
    detail: `field ${path} names nothing that this account got from the provider of this model`,
  });

/** The routes that can serve a request with ids that it needs. Throws `field_invalid` for the first other. */
function routesWith(
  ids: readonly StateId[],
  routes: readonly Route[],
  open: (id: StateId, route: Route) => string | undefined,
): Route[] {
  let left = [...routes];
  for (const id of ids) {
    if (id.isOptional) continue;
    left = left.filter((route) => open(id, route) !== undefined);
    if (left.length === 0) throw refusal(id);
  }
  return left;
}

/**
 * Opens the ids that a request names. What it only refers to decides where it goes; ids of items that it brings along
 * are left out where they are not known, and their upstream is asked first. Throws `field_invalid` for ids that were
 * not given to this account.
 */
export function bindState(
  ids: readonly StateId[],
  account: string,
  routes: readonly Route[],
  isPassed: (route: Route) => boolean,
): BoundState {
  const address = ids.find(({ isAddress }) => isAddress);
  if (address) throw refusal(address);
  // A conversion reads what the request says, and refuses ids by itself.
  const passed = routes.filter(isPassed);
  if (passed.length === 0) return { routes: [...routes], editsFor: () => [] };
  const open = ({ text }: StateId, { upstream }: Route): string | undefined =>
    openId(text, bindingOf(upstream, account));
  const isBound = ids.some(({ isOptional }) => !isOptional);
  const last = ids.findLast((id) => id.isOptional && passed.some((route) => open(id, route) !== undefined));
  const isFirst = (route: Route): boolean => last !== undefined && isPassed(route) && open(last, route) !== undefined;
  const left = isBound ? routesWith(ids, passed, open) : [...routes];
  return {
    routes: left.toSorted((one, other) => Number(isFirst(other)) - Number(isFirst(one))),
    editsFor: (route) => ids.map((id) => ({ ...id, text: open(id, route) })),
  };
}

/** The name by which a caller is told that ids of items were left out. */
export const leftOutIds = "input.id";

/** The request as an upstream shall get it, before anything else of it changes. */
export function withOpenIds(envelope: Envelope, edits: readonly StateEdit[], { mediaPlaces }: Dialect): Envelope {
  if (edits.length === 0) return envelope;
  const body = readJsonBody(editStateIds(envelope.body, edits), mediaPlaces);
  const isLess = edits.some(({ text }) => text === undefined);
  return { ...envelope, body, ...(isLess && { removed: [...(envelope.removed ?? []), leftOutIds] }) };
}
