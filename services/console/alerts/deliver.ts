import { FetchRefusedError } from "#shared/net/guarded-agent.ts";
import type { Deps } from "../deps.ts";
import { listSealedSecrets, recordAttempt, takeDue, type AttemptOutcome, type Delivery } from "../store/deliveries.ts";
import { mailOf, type AlertEvent } from "./events.ts";
import { postMessage } from "./webhook.ts";

export type DeliveryDeps = Pick<Deps, "pool" | "box" | "clock" | "mailer" | "webhookRules" | "publicUrl" | "log">;

const maxAtOnce = 20;
const maxOfAccount = 4;

// As Standard Webhooks suggests: a receiver may be away for a day and a half.
const retrySeconds = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400];

/** What the secret of a webhook is sealed for. */
export const sealedFor = (webhookId: string): string => `webhook ${webhookId}`;

/** Sends what is due, each once a time, all at the same time. Rejects only when PostgreSQL does not answer. */
export async function deliverDue(deps: DeliveryDeps): Promise<void> {
  const due = await takeDue(deps.pool, maxAtOnce, maxOfAccount);
  await Promise.all(
    due.map(async (delivery) => recordAttempt(deps.pool, delivery.deliveryId, await attempt(deps, delivery))),
  );
}

async function attempt(deps: DeliveryDeps, delivery: Delivery): Promise<AttemptOutcome> {
  try {
    return delivery.webhookId === null ? await mail(deps, delivery) : await post(deps, delivery, delivery.webhookId);
  } catch (error) {
    const { deliveryId, accountId, eventType } = delivery;
    deps.log.warn({ err: error, deliveryId, accountId, eventType }, "failed to deliver an alert, will retry");
    // What a name resolves to is for the log alone.
    const isRefused = error instanceof FetchRefusedError && error.cause === undefined;
    return failed(delivery, isRefused ? "the address is not allowed or did not answer" : "no connection");
  }
}

async function mail({ mailer, publicUrl }: DeliveryDeps, delivery: Delivery): Promise<AttemptOutcome> {
  if (!mailer) return failed(delivery, "no mail server is set up");
  const event = JSON.parse(delivery.body) as AlertEvent;
  await mailer.send({ to: delivery.recipient, ...mailOf(event, publicUrl) });
  return { isDelivered: true, result: "sent", retrySeconds: undefined };
}

async function post(deps: DeliveryDeps, delivery: Delivery, webhookId: string): Promise<AttemptOutcome> {
  const { pool, box, clock, webhookRules } = deps;
  const sealed = await listSealedSecrets(pool, webhookId);
  if (sealed.length === 0) return { isDelivered: false, result: "the webhook is deleted", retrySeconds: undefined };
  const secrets = sealed.map((one) => box.open(one, sealedFor(webhookId)));
  const { eventId: id, body, recipient } = delivery;
  const status = await postMessage(recipient, { id, body, secrets, nowMs: clock.nowMs() }, webhookRules);
  const result = `HTTP ${status}`;
  if (status >= 200 && status < 300) return { isDelivered: true, result, retrySeconds: undefined };
  // It wants no more of it.
  return status === 410 ? { isDelivered: false, result, retrySeconds: undefined } : failed(delivery, result);
}

// Whoever tests a webhook looks on, and tests again.
const failed = ({ attempts, eventType }: Delivery, result: string): AttemptOutcome => ({
  isDelivered: false,
  result,
  retrySeconds: eventType === "test" ? undefined : retrySeconds[attempts - 1],
});
