import { createToken } from "../credentials/secrets.ts";
import type { Deps } from "../deps.ts";
import type { Domain } from "../store/domains.ts";

/** The record that an account publishes: below a name of its own (RFC 8552), so that it is in nobody's way. */
export const recordOf = ({ domain, token }: Pick<Domain, "domain" | "token">) => ({
  name: `_relay-console.${domain}`,
  value: `relay-console=${token}`,
});

/** What is told apart in it: random, so that no record of another account or of an earlier claim counts. */
export const createClaimToken = createToken;

/** Whether the record is there; "unknown" when DNS did not say, "busy" when too many are asking. */
export async function lookForRecord(
  { txtRecords }: Pick<Deps, "txtRecords">,
  claim: Pick<Domain, "domain" | "token">,
): Promise<"found" | "absent" | "unknown" | "busy"> {
  const { name, value } = recordOf(claim);
  const answer = await txtRecords(name);
  if (typeof answer === "string") return answer;
  return answer.records.some((record) => record.trim() === value) ? "found" : "absent";
}
