import { randomUUID } from "node:crypto";
import type { ReceivedRequest } from "#fake-provider/receive.ts";

type Answer = [status: number, body: object];
type Card = { customer: string; isAttached: boolean };

/** A charge of a kept card as Stripe tells it. */
export type FakeIntent = {
  id: string;
  object: "payment_intent";
  status: "succeeded" | "processing";
  amount: number;
  amount_received: number;
  currency: string;
  metadata: Record<string, string>;
};

/** Cards that were kept at the checkout, and what they were charged. As strict as Stripe. */
export type FakeCards = {
  /** Charges that succeeded, by their ids. */
  intents: Map<string, FakeIntent>;
  /** Charges that were asked for, whatever came of them. */
  attempts: number;
  /** While set, cards are declined with this code. */
  decline: string | undefined;
  /** While set, the answer to a charge does not arrive: the charge is made all the same. */
  losesAnswers: boolean;
  /** Keeps the card that a session is paid with; gives its customer. */
  keep: (sessionId: string, usage: string | null) => string;
  methodOf: (sessionId: string) => object | null;
  /** Undefined: the request is not about cards. */
  answer: (request: ReceivedRequest) => Answer | undefined;
};

const refusal = (code: string, param?: string): Answer => [
  400,
  { error: { type: "invalid_request_error", code, message: `${code} ${param ?? ""}`, ...(param && { param }) } },
];

// Parameters of https://docs.stripe.com/api/payment_intents/create that are used here; Stripe refuses unknown ones.
const plain = "amount|currency|customer|payment_method|off_session|confirm|description";
const nested = "metadata\\[\\w+\\]|automatic_payment_methods\\[(?:enabled|allow_redirects)\\]";
const known = new RegExp(`^(?:${plain}|${nested})$`);

function problemOf(form: URLSearchParams, cards: ReadonlyMap<string, Card>): Answer | undefined {
  const unknown = [...form.keys()].find((name) => !known.test(name));
  if (unknown !== undefined) return refusal("parameter_unknown", unknown);
  for (const name of ["amount", "currency"]) if (!form.has(name)) return refusal("parameter_missing", name);
  if (!/^\d+$/.test(form.get("amount") ?? "")) return refusal("parameter_invalid_integer", "amount");
  if (Number(form.get("amount")) < 50) return refusal("amount_too_small", "amount");
  // Without it Stripe wants a return_url: some ways to pay lead elsewhere.
  const leadsElsewhere = form.get("automatic_payment_methods[allow_redirects]") !== "never";
  if (form.get("confirm") === "true" && leadsElsewhere) return refusal("parameter_missing", "return_url");
  if (form.get("off_session") === "true" && form.get("confirm") !== "true") return refusal("parameter_invalid");
  const card = cards.get(form.get("payment_method") ?? "");
  if (!card?.isAttached) return refusal("resource_missing", "payment_method");
  return card.customer === form.get("customer") ? undefined : refusal("payment_method_customer_mismatch");
}

function succeeded(form: URLSearchParams): FakeIntent {
  const metadata = [...form].flatMap(([name, value]) => {
    const key = /^metadata\[(\w+)\]$/.exec(name)?.[1];
    return key === undefined ? [] : [[key, value] as const];
  });
  const amount = Number(form.get("amount"));
  return {
    id: `pi_${randomUUID().replaceAll("-", "")}`,
    object: "payment_intent",
    status: "succeeded",
    amount,
    amount_received: amount,
    currency: form.get("currency") ?? "",
    metadata: Object.fromEntries(metadata),
  };
}

/** https://docs.stripe.com/api/idempotent_requests: the first answer again, unless the parameters are others. */
function createIdempotency(): (request: ReceivedRequest, work: (body: string) => Answer) => Answer {
  const answered = new Map<string, { body: string; answer: Answer }>();
  return ({ headers, rawBody }, work) => {
    const key = headers["idempotency-key"]?.toString() ?? randomUUID();
    const body = rawBody.toString();
    const first = answered.get(key);
    if (first && first.body !== body) return [400, { error: { type: "idempotency_error", message: "Other words" } }];
    const answer = first?.answer ?? work(body);
    answered.set(key, { body, answer });
    return answer;
  };
}

export function createFakeCards(): FakeCards {
  const cards = new Map<string, Card>();
  const once = createIdempotency();

  const charge = (body: string): Answer => {
    const form = new URLSearchParams(body);
    const problem = problemOf(form, cards);
    if (problem) return problem;
    const { decline } = fake;
    if (decline !== undefined) return [402, { error: { type: "card_error", code: decline, message: "Declined" } }];
    const intent = succeeded(form);
    fake.intents.set(intent.id, intent);
    return [200, intent];
  };

  const detach = (id: string): Answer => {
    const card = cards.get(id);
    if (!card?.isAttached) return refusal("resource_missing", "payment_method");
    card.isAttached = false;
    return [200, { id, object: "payment_method" }];
  };

  const fake: FakeCards = {
    intents: new Map(),
    attempts: 0,
    decline: undefined,
    losesAnswers: false,
    keep: (sessionId, usage) => {
      const customer = `cus_of_${sessionId}`;
      if (usage === "off_session") cards.set(`pm_of_${sessionId}`, { customer, isAttached: true });
      return customer;
    },
    methodOf: (sessionId) => {
      const id = `pm_of_${sessionId}`;
      return { id, object: "payment_method", card: { brand: "visa", last4: "4242" } };
    },
    answer: (request) => {
      const { method, path } = request;
      const [, detached] = /^\/v1\/payment_methods\/([\w-]+)\/detach$/.exec(path) ?? [];
      if (method === "POST" && detached !== undefined) return detach(detached);
      const intent = fake.intents.get(path.replace("/v1/payment_intents/", ""));
      if (method === "GET" && intent) return [200, intent];
      if (method !== "POST" || path !== "/v1/payment_intents") return undefined;
      fake.attempts += 1;
      const answer = once(request, charge);
      return fake.losesAnswers ? [503, { error: { type: "api_error", message: "lost" } }] : answer;
    },
  };
  return fake;
}
