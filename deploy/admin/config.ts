import { existsSync, readFileSync } from "node:fs";
import { ServiceError } from "#shared/errors.ts";

/** Where the services answer: `host:port` each. */
export type Addresses = { authQuotaAddress: string; billingAddress: string };

/**
 * Reads AUTH_QUOTA_ADDRESS and BILLING_ADDRESS; what is not set comes from the file that the running local stack
 * leaves. Throws `failed_precondition` when an address is in neither.
 */
export function readAddresses(environment: NodeJS.ProcessEnv, localFile: string): Addresses {
  const local = (existsSync(localFile) ? JSON.parse(readFileSync(localFile, "utf8")) : {}) as Partial<Addresses>;
  const pick = (variable: string, fallback: string | undefined): string => {
    const address = environment[variable] ?? fallback;
    if (address) return address;
    throw new ServiceError("failed_precondition", `set ${variable} to host:port, or start the local stack: npm start`);
  };
  return {
    authQuotaAddress: pick("AUTH_QUOTA_ADDRESS", local.authQuotaAddress),
    billingAddress: pick("BILLING_ADDRESS", local.billingAddress),
  };
}
