import type { IncomingMessage, ServerResponse } from "node:http";
import type { Result } from "#proto/authquota/v1/authquota_pb.ts";
import { authorize, type Caller } from "../charge/admit.ts";
import { readBody } from "./body.ts";
import type { BodyBudget } from "./body-budget.ts";
import { CallFailure } from "../failures.ts";
import type { Settling } from "../charge/settle.ts";

/** A request whose head was read. */
export type Taking = { request: IncomingMessage; response: ServerResponse; caller: Caller };

/** Checks the key without holding money; the address counts the first time only. Throws what a wrong key is told. */
export type CheckKey = () => Promise<Result>;

/**
 * Takes what a caller sends as far as money, in the order of the README: `ask` reads what is asked and throws what is
 * wrong with it, which a caller with a wrong key is not told. Gives undefined when the caller went away while sending.
 * Throws a CallFailure, also while the spool takes no records.
 */
export async function takeBody<Asked>(
  { request, response, caller }: Taking,
  { settling, bodyBudget }: { settling: Settling; bodyBudget: BodyBudget },
  ask: (body: Buffer, checkKey: CheckKey) => Asked | Promise<Asked>,
): Promise<{ asked: Asked } | undefined> {
  const { quota, spool } = settling;
  const checkKey = async (): Promise<Result> => {
    const result = await authorize(quota, { ...caller });
    caller.ip = "";
    return result;
  };
  const body = await readBody(request, response, { checkKey, budget: bodyBudget });
  if (!body) return undefined;
  let asked: Asked;
  try {
    asked = await ask(body, checkKey);
  } catch (refusal) {
    // A wrong key is told before a wrong body.
    if (caller.ip !== "") await checkKey();
    throw refusal;
  }
  const problem = spool.problem();
  if (problem !== undefined) throw new CallFailure({ name: "service_unavailable", cause: problem });
  return { asked };
}
