import { existsSync, readFileSync } from "node:fs";
import { Type } from "typebox";
import { readVariables } from "#shared/process/env.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { openGrpcCredentials, type GrpcCredentials } from "#shared/grpc/credentials.ts";
import { checkLinks, grpcTlsVariables } from "#shared/stores/link-variables.ts";
import { createLog } from "#shared/process/log.ts";

/** Where the services answer: `host:port` each. */
export type Addresses = { authQuotaAddress: string; billingAddress: string };

/** What the local stack leaves for the tool: where services answer, and files for gRPC under their variables' names. */
const localOf = (file: string): Partial<Record<string, string>> =>
  existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Partial<Record<string, string>>) : {};

/**
 * Reads AUTH_QUOTA_ADDRESS and BILLING_ADDRESS; what is not set comes from the file that the running local stack
 * leaves. Throws `failed_precondition` when an address is in neither.
 */
export function readAddresses(environment: NodeJS.ProcessEnv, localFile: string): Addresses {
  const local = localOf(localFile);
  const pick = (variable: string, fallback: string | undefined): string => {
    const address = environment[variable] ?? fallback;
    if (address) return address;
    throw new ServiceError("failed_precondition", `set ${variable} to host:port, or start the local stack: npm start`);
  };
  return {
    authQuotaAddress: pick("AUTH_QUOTA_ADDRESS", local["authQuotaAddress"]),
    billingAddress: pick("BILLING_ADDRESS", local["billingAddress"]),
  };
}

/** Where the first of the relays answers operators: of RELAY_ADDRESSES, as the console has it; empty: not known. */
export function readRelayAddress(environment: NodeJS.ProcessEnv, localFile: string): string {
  const [first = ""] = (environment["RELAY_ADDRESSES"] ?? localOf(localFile)["relayAddress"] ?? "").split(",");
  return first.trim();
}

/**
 * The variables of a backup or a restore: the environment's; if it names no database, with those that the running local
 * stack leaves.
 */
export function backupEnvironment(environment: NodeJS.ProcessEnv, localFile: string): NodeJS.ProcessEnv {
  if (environment["DATABASE_OWNER_URL"] || environment["BACKUP_DATABASE_URL"]) return environment;
  const { DATABASE_OWNER_URL, NATS_URL, CATALOG_FILE } = localOf(localFile);
  return DATABASE_OWNER_URL === undefined
    ? environment
    : { ...environment, DATABASE_OWNER_URL, NATS_URL, CATALOG_FILE };
}

/**
 * Reads GRPC_CERT_FILE, GRPC_KEY_FILE and GRPC_CA_FILE; if none is set they come from the file that the running local
 * stack leaves. Throws `failed_precondition` when they cannot be used.
 */
export function readCredentials(environment: NodeJS.ProcessEnv, localFile: string): GrpcCredentials {
  const isTold = Object.keys(grpcTlsVariables).some((name) => environment[name]);
  const local = isTold ? {} : localOf(localFile);
  try {
    const config = readVariables(Type.Object(grpcTlsVariables), { ...environment, ...local });
    checkLinks(config);
    return openGrpcCredentials(config, createLog("admin", "silent"));
  } catch (error) {
    throw new ServiceError("failed_precondition", error instanceof Error ? error.message : String(error), error);
  }
}
