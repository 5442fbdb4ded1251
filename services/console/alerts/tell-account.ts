import type { Queryable } from "#shared/stores/postgres.ts";
import { listOwnerAddresses } from "../store/alerts.ts";
import { insertDeliveries, listWebhooks, type NewEvent } from "../store/deliveries.ts";

const maxOwners = 20;

/** Has an event sent to all webhooks of its account, and by mail to its owners. */
export async function tellAccount(db: Queryable, event: NewEvent, { isMailed }: { isMailed: boolean }): Promise<void> {
  const webhooks = await listWebhooks(db, event.accountId);
  const addresses = isMailed ? await listOwnerAddresses(db, event.accountId, maxOwners) : [];
  await insertDeliveries(db, event, [
    ...webhooks.map(({ webhookId, url }) => ({ recipient: url, webhookId })),
    ...addresses.map((recipient) => ({ recipient, webhookId: null })),
  ]);
}
