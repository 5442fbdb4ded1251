import { AuthQuotaService, KeyStatus } from "#proto/authquota/v1/authquota_pb.ts";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { GrpcCredentials } from "#shared/grpc/credentials.ts";
import { connectGrpc, unaryClient, type UnaryClient } from "#shared/grpc/grpc.ts";
import type { LocalState } from "./state.ts";

export const seededAccountId = "acct_local";
const seededNanos = 100_000_000_000n;
const callTimeoutMs = 10_000;

export type SeededKey = { keyId: string; secret: string };

/**
 * Makes one account with 100 USD and one key, over the services' own calls. What is there already stays: the payment
 * is booked once, and the remembered key is used again while it works.
 */
export async function seed(
  addresses: { authQuota: string; billing: string },
  state: LocalState,
  credentials?: GrpcCredentials,
): Promise<SeededKey> {
  using authQuotaChannel = connectGrpc(addresses.authQuota, credentials, "auth-quota");
  using billingChannel = connectGrpc(addresses.billing, credentials, "billing");
  const authQuota = unaryClient(AuthQuotaService, authQuotaChannel, callTimeoutMs);
  const billing = unaryClient(BillingService, billingChannel, callTimeoutMs);

  await ensureAccount(authQuota);
  await billing.credit({
    accountId: seededAccountId,
    amountNanos: seededNanos,
    paymentId: "seed",
    note: "Play money of the local stack",
  });
  return (await findRememberedKey(authQuota, state.key)) ?? (await createKey(authQuota));
}

async function ensureAccount(authQuota: UnaryClient<typeof AuthQuotaService>): Promise<void> {
  try {
    await authQuota.createAccount({ name: "Local demo", accountId: seededAccountId });
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "already_exists") throw error;
  }
}

async function findRememberedKey(
  authQuota: UnaryClient<typeof AuthQuotaService>,
  remembered: SeededKey | undefined,
): Promise<SeededKey | undefined> {
  if (!remembered) return undefined;
  const { keys } = await authQuota.listKeys({ accountId: seededAccountId });
  const isUsable = keys.some(
    ({ keyId, status, expiresAt }) => keyId === remembered.keyId && status === KeyStatus.ACTIVE && !expiresAt,
  );
  return isUsable ? remembered : undefined;
}

async function createKey(authQuota: UnaryClient<typeof AuthQuotaService>): Promise<SeededKey> {
  const { key, secret } = await authQuota.createKey({ accountId: seededAccountId, name: "Local demo" });
  if (!key) throw new ServiceError("internal", "a key was made without its record");
  return { keyId: key.keyId, secret };
}
