import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import type { BillingService } from "#proto/billing/v1/billing_pb.ts";
import type { UnaryClient, UnaryHandlers } from "#shared/grpc/grpc.ts";

type Billing = Pick<UnaryClient<typeof BillingService>, "findLostCharges">;

/** Asks billing for a relay, which has no way to it: what the ledger lacks of what was told to be booked. */
export function findLostChargesHandler(billing: Billing): UnaryHandlers<typeof AuthQuotaService>["findLostCharges"] {
  return async ({ relays, rids }) => {
    const asked = relays.map(({ relaySession, booked }) => ({ relaySession, booked }));
    const { lost, unbookedRids } = await billing.findLostCharges({ relays: asked, rids });
    return { lost: lost.map(({ relaySession, charges }) => ({ relaySession, charges })), unbookedRids };
  };
}
