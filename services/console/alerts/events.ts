import type { Key } from "#proto/authquota/v1/authquota_pb.ts";
import { usd } from "../html/amounts.ts";
import { nameOf } from "../html/key-fields.ts";
import type { NewEvent } from "../store/deliveries.ts";

/** What a webhook gets, and a mail is made of; amounts are nano-USD as text. */
export type AlertEvent = { type: string; timestamp: string; data: Record<string, string | number> };

type Found = { accountId: string; at: Date };

export const balanceLow = (
  { accountId, at }: Found,
  { balanceNanos, thresholdNanos }: { balanceNanos: bigint; thresholdNanos: bigint },
): NewEvent =>
  eventOf(accountId, at, "balance.low", { balance_nanos: `${balanceNanos}`, threshold_nanos: `${thresholdNanos}` });

export const limitReached = (
  { accountId, at }: Found,
  { key, spentNanos, percent }: { key: Key; spentNanos: bigint; percent: number },
): NewEvent =>
  eventOf(accountId, at, "key.limit_reached", {
    key_id: key.keyId,
    key_name: nameOf(key),
    spent_nanos: `${spentNanos}`,
    limit_nanos: `${key.limitNanos ?? 0n}`,
    threshold_percent: percent,
  });

export const budgetReached = (
  { accountId, at }: Found,
  { limitNanos, spentNanos, percent }: { limitNanos: bigint; spentNanos: bigint; percent: number },
): NewEvent =>
  eventOf(accountId, at, "account.budget_reached", {
    spent_nanos: `${spentNanos}`,
    limit_nanos: `${limitNanos}`,
    threshold_percent: percent,
  });

export const topUpFailed = (
  { accountId, at }: Found,
  { topUpId, amountNanos, reason }: { topUpId: string; amountNanos: bigint; reason: string },
): NewEvent => eventOf(accountId, at, "top_up.failed", { top_up_id: topUpId, amount_nanos: `${amountNanos}`, reason });

export const domainLapsed = ({ accountId, at }: Found, domain: string): NewEvent =>
  eventOf(accountId, at, "domain.lapsed", { domain });

export const testEvent = (accountId: string, at: Date): NewEvent => eventOf(accountId, at, "test", {});

function eventOf(accountId: string, at: Date, type: string, data: AlertEvent["data"]): NewEvent {
  const event: AlertEvent = { type, timestamp: at.toISOString(), data: { account_id: accountId, ...data } };
  return { accountId, eventType: type, body: JSON.stringify(event) };
}

/** Kinds of events, for people. */
export const eventWords: Readonly<Record<string, string>> = {
  "balance.low": "Low balance",
  "key.limit_reached": "Limit of a key",
  "account.budget_reached": "Budget of the account",
  "top_up.failed": "Automatic top-up",
  "domain.lapsed": "Sign-in by domain",
  test: "Test",
};

const amount = (value: string | number | undefined): string => usd(BigInt(value ?? 0));

/** The words of a mail. */
export function mailOf({ type, data }: AlertEvent, consoleUrl: URL): { subject: string; text: string } {
  const accountId = String(data["account_id"]);
  const link = (path: string): string => new URL(`/accounts/${accountId}${path}`, consoleUrl).href;
  const end = `\n\nWhat you are told of, and by what means: ${link("/alerts")}\n`;
  if (type === "balance.low") {
    const [balance, threshold] = [amount(data["balance_nanos"]), amount(data["threshold_nanos"])];
    const subject = `The balance of ${accountId} is below ${threshold}`;
    const text = `The balance of the account ${accountId} is ${balance}. Without money its calls are refused.`;
    return { subject, text: `${text}\n\nAdd credits: ${link("/top-up")}${end}` };
  }
  if (type === "domain.lapsed") {
    const domain = String(data["domain"]);
    const subject = `Sign-in by ${domain} has ended`;
    const text = `The TXT record of ${domain} is gone for days: nobody joins ${accountId} by this domain any more.`;
    return { subject, text: `${text}\n\nPublish it again, then verify it: ${link("/members/domains")}${end}` };
  }
  if (type === "top_up.failed") {
    const [sum, reason] = [amount(data["amount_nanos"]), String(data["reason"])];
    const subject = `The automatic top-up of ${accountId} has failed`;
    const text = `The saved card of the account ${accountId} could not be charged with ${sum}: ${reason}.`;
    const off = "Automatic top-ups are off until you switch them on again";
    return { subject, text: `${text}\n\n${off}: ${link("/top-up/automatic")}${end}` };
  }
  const percent = String(data["threshold_percent"]);
  const [spent, limit] = [amount(data["spent_nanos"]), amount(data["limit_nanos"])];
  if (type === "account.budget_reached") {
    const subject = `The account ${accountId} has spent ${percent} % of its budget`;
    const text = `The keys of the account ${accountId} have spent ${spent} of its budget of ${limit}.`;
    const refused = "Calls that could cost more than is left are refused";
    return { subject, text: `${text} ${refused}.\n\nThe budget: ${link("/budget")}${end}` };
  }
  const name = String(data["key_name"]);
  const subject = `The key ${name} has spent ${percent} % of its limit`;
  const text = `The key ${name} of the account ${accountId} has spent ${spent} of its limit of ${limit}.`;
  return { subject, text: `${text}\n\nKeys and their limits: ${link("/keys")}${end}` };
}
