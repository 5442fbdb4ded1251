import type { Result } from "#proto/authquota/v1/authquota_pb.ts";
import { authorize, type Caller } from "../charge/admit.ts";
import type { SettlementDeps } from "../charge/settle.ts";
import { CallFailure } from "../failures.ts";
import type { BodyBudget } from "./body-budget.ts";
import { readBody, type LargeBody } from "./body.ts";
import type { CallRequest, CallResponse } from "./exchange.ts";
import type { ThreadSession } from "../threads/threads.ts";

/** A request whose head was read. */
export type RequestHead = { request: CallRequest; response: CallResponse; caller: Caller };

/** Checks the key without holding money. Throws what a caller with a wrong key is told. */
export type CheckKey = () => Promise<Result>;

/** Checks the key of a caller whose request is not parsed yet, such as before anything is fetched for it. */
const keyCheckOf =
  ({ quota }: Pick<SettlementDeps, "quota">, caller: Caller): CheckKey =>
  () =>
    authorize(quota, caller);

type BodyDeps = { settling: SettlementDeps; bodyBudget: BodyBudget };

/** Takes a whole body; undefined when the caller went away while sending. Throws a CallFailure. */
export function takeBody(
  { request, response, caller }: RequestHead,
  { settling, bodyBudget }: BodyDeps,
): Promise<Buffer | undefined> {
  return readBody(request, response, { checkKey: keyCheckOf(settling, caller), budget: bodyBudget, owner: caller });
}

/** The same, where a large body is worked on in a thread. */
export function takeAnyBody(
  { request, response, caller }: RequestHead,
  { settling, bodyBudget, openSession, mostHere }: BodyDeps & { openSession: () => ThreadSession; mostHere: number },
): Promise<Buffer | LargeBody | undefined> {
  return readBody(request, response, {
    checkKey: keyCheckOf(settling, caller),
    budget: bodyBudget,
    owner: caller,
    openSession,
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
  { settling }: { settling: Pick<SettlementDeps, "quota" | "spool"> },
  parse: (checkKey: CheckKey) => Parsed | Promise<Parsed>,
): Promise<Parsed> {
  const checkKey = keyCheckOf(settling, caller);
  let parsed: Parsed;
  try {
    parsed = await parse(checkKey);
  } catch (refusal) {
    if (!caller.isAuthorized) await checkKey();
    throw refusal;
  }
  const problem = settling.spool.problem();
  if (problem !== undefined) throw new CallFailure({ name: "service_unavailable", cause: problem });
  return parsed;
}
