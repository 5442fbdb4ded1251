import type { Queryable } from "#shared/stores/postgres.ts";
import type { Deps } from "../deps.ts";
import type { Person } from "../store/people.ts";
import { takeRecoveryCode, takeStep } from "../store/second-factor.ts";
import { hashRecoveryCode, stepOfCode } from "../credentials/totp.ts";

/** Whether a person has a role that counts for nothing before a second factor is set up. */
export const owesSecondFactor = (
  { secondFactorRequiredOf }: Pick<Deps, "secondFactorRequiredOf">,
  { isOperator, totpSecret }: Person,
): boolean => secondFactorRequiredOf === "operators" && isOperator && totpSecret === null;

const codePattern = /^\d{6}$/;

/**
 * Takes a code of the person's app, or a recovery code; undefined when it is wrong or was taken before. A code that was
 * taken stays so only when the transaction of `db` is committed.
 */
export async function takeCode(
  { box, clock }: Pick<Deps, "box" | "clock">,
  db: Queryable,
  person: Person,
  typed: string,
): Promise<"app" | "recovery" | undefined> {
  const { personId, totpSecret } = person;
  if (totpSecret === null) return undefined;
  const code = typed.replaceAll(" ", "");
  if (!codePattern.test(code)) {
    const codeHash = hashRecoveryCode(typed);
    return codeHash && (await takeRecoveryCode(db, personId, codeHash)) ? "recovery" : undefined;
  }
  const step = stepOfCode(box.open(totpSecret, personId), code, clock.nowMs());
  return step !== undefined && (await takeStep(db, personId, step)) ? "app" : undefined;
}
