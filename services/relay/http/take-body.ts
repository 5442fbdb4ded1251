import type { Result } from "#proto/authquota/v1/authquota_pb.ts";
import { authorize, type Admitting, type Caller } from "../charge/admit.ts";
import type { SettlementDeps } from "../charge/settle.ts";
import { CallFailure } from "../failures.ts";
import type { BodyBudget } from "./body-budget.ts";
import { readBody, type LargeBody } from "./body.ts";
import type { CallRequest, CallResponse } from "./exchange.ts";
import type { Threads, ThreadSession } from "../threads/threads.ts";

/** A request whose head was read. */
export type RequestHead = { request: CallRequest; response: CallResponse; caller: Caller };

/** Checks the key without holding money. Throws what a caller with a wrong key is told. */
export type CheckKey = () => Promise<Result>;

/** Checks the key of a caller whose request is not parsed yet, such as before anything is fetched for it. */
const keyCheckOf =
  (admitting: Admitting, caller: Caller): CheckKey =>
  () =>
    authorize(admitting, caller);

type BodyDeps = Admitting & { bodyBudget: BodyBudget };

/** Takes a whole body; undefined when the caller went away while sending. Throws a CallFailure. */
export function takeBody({ request, response, caller }: RequestHead, deps: BodyDeps): Promise<Buffer | undefined> {
  const { bodyBudget: budget } = deps;
  return readBody(request, response, { checkKey: keyCheckOf(deps, caller), budget, owner: caller });
}

/** The same, where a large body is worked on in a thread. */
export function takeAnyBody(
  { request, response, caller }: RequestHead,
  deps: BodyDeps & { threads: Threads; openSession: () => ThreadSession; mostHere: number },
): Promise<Buffer | LargeBody | undefined> {
  const { bodyBudget: budget, threads, openSession, mostHere } = deps;
  return readBody(request, response, {
    checkKey: keyCheckOf(deps, caller),
    budget,
    owner: caller,
    openSession,
    keepUp: threads.keepUp,
    mostHere,
  });
}

/** A caller's key as a text; not the secret. */
export const keyOf = ({ keyHash }: Caller): string => Buffer.from(keyHash).toString("base64");

/** Whose work it is, as far as that is known. */
export const accountOf = (caller: Caller): string => caller.accountId || keyOf(caller);

/**
 * Does what can be done before money: `parse` throws what is wrong with the request, which a caller with a wrong key is
 * not told. Throws `service_unavailable` while the spool takes no records.
 */
export async function parseFor<Parsed>(
  caller: Caller,
  relay: Admitting & { settling: Pick<SettlementDeps, "spool"> },
  parse: (checkKey: CheckKey) => Parsed | Promise<Parsed>,
): Promise<Parsed> {
  const checkKey = keyCheckOf(relay, caller);
  let parsed: Parsed;
  try {
    parsed = await parse(checkKey);
  } catch (refusal) {
    if (!caller.isAuthorized) await checkKey();
    throw refusal;
  }
  const problem = relay.settling.spool.problem();
  if (problem !== undefined) throw new CallFailure({ name: "service_unavailable", cause: problem });
  return parsed;
}
