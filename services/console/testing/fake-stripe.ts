import { createHmac, randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { listenFake } from "#fake-provider/listen.ts";
import { createFakeCards, type FakeCards } from "./fake-cards.ts";
import { receive, type ReceivedRequest } from "#fake-provider/receive.ts";
import { html, render, type Markup } from "../html/html.ts";

/** A checkout session as Stripe's API tells it, as far as anybody here reads it. */
export type FakeSession = {
  id: string;
  object: "checkout.session";
  status: "open" | "complete" | "expired";
  payment_status: "unpaid" | "paid";
  payment_intent: string | null;
  amount_total: number;
  currency: string;
  client_reference_id: string | null;
  metadata: Record<string, string>;
  success_url: string;
  cancel_url: string;
  url: string;
  customer: string | null;
  /** Whether the card is kept: `payment_intent_data[setup_future_usage]`. */
  setup_future_usage: string | null;
};

type FakeEvent = { id: string; object: "event"; type: string; created: number; data: { object: object } };

type MessageOptions = { secret?: string; timestamp?: number; to?: string; created?: number };

/** Stripe on a port of this machine: sessions, the page on which they are paid, and signed messages to the webhook. */
export type FakeStripe = AsyncDisposable & {
  url: string;
  sessions: Map<string, FakeSession>;
  /** What the API was asked, as it came. */
  received: ReceivedRequest[];
  /** Where messages go; may be set once the console listens. */
  webhookUrl: string;
  /** Sent with each message: what a proxy would add. */
  webhookHeaders: Record<string, string>;
  /** Where its pages seem to be: Stripe's can have a domain of one's own. */
  pageUrl: string;
  /** While set, the API answers with this status and an error as Stripe's. */
  failure: number | undefined;
  /** Sends a signed message; tells the status of the answer. */
  tell: (type: string, object: object, telling?: MessageOptions) => Promise<number>;
  /** What was told, the oldest first. */
  events: FakeEvent[];
  /** Pays a session without a message. */
  pay: (id: string) => FakeSession;
  cards: FakeCards;
};

/** The header by https://docs.stripe.com/webhooks/signature#verify-manually, made without Stripe's package. */
export function signHeader(body: string, secret: string, timestamp = Math.floor(Date.now() / 1_000)): string {
  const signature = createHmac("sha256", secret).update(`${timestamp}.${body}`).digest("hex");
  return `t=${timestamp},v1=${signature}`;
}

type Settings = { webhookUrl?: string; webhookSecret: string; port?: number };

export async function startFakeStripe({ webhookUrl = "", webhookSecret, port }: Settings): Promise<FakeStripe> {
  const server = await listenFake((request, response) => void answer(fake, request, response), { port });
  const fake: FakeStripe = {
    url: server.url,
    sessions: new Map(),
    received: [],
    webhookUrl,
    webhookHeaders: {},
    pageUrl: server.url,
    failure: undefined,
    cards: createFakeCards(),
    events: [],
    tell: async (type, object, { secret = webhookSecret, timestamp, to = fake.webhookUrl, created } = {}) => {
      const happened = created ?? Math.floor(Date.now() / 1_000);
      const event: FakeEvent = {
        id: `evt_${randomUUID()}`,
        object: "event",
        type,
        created: happened,
        data: { object: structuredClone(object) },
      };
      fake.events.push(event);
      const body = JSON.stringify(event, undefined, 2);
      const signature = { "stripe-signature": signHeader(body, secret, timestamp) };
      const headers = { "content-type": "application/json; charset=utf-8", ...signature, ...fake.webhookHeaders };
      const told = await fetch(to, { method: "POST", body, headers });
      await told.arrayBuffer();
      return told.status;
    },
    pay: (id) => {
      const session = fake.sessions.get(id);
      if (session?.status !== "open") throw new Error(`${id} cannot be paid`);
      if (session.customer === "new") session.customer = fake.cards.keep(id, session.setup_future_usage);
      return Object.assign(session, { status: "complete", payment_status: "paid", payment_intent: `pi_of_${id}` });
    },
    [Symbol.asyncDispose]: server.close,
  };
  return fake;
}

async function answer(fake: FakeStripe, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const received = await receive(request);
  const { method, path } = received;
  const [, place = "", id = ""] = /^(\/v1\/checkout\/sessions|\/pay)\/?([\w-]*)(?:\?.*)?$/.exec(path) ?? [];
  const session = fake.sessions.get(id);
  if (place === "/pay" && session) return method === "POST" ? pay(fake, session, response) : showPay(session, response);
  fake.received.push(received);
  if (fake.failure !== undefined) return json(response, fake.failure, { error: { type: "api_error", message: "no" } });
  if (method === "GET" && path.startsWith("/v1/events?")) return json(response, 200, listEvents(fake, path));
  const ofCards = fake.cards.answer(received);
  if (ofCards) return json(response, ...ofCards);
  if (place.startsWith("/v1") && method === "GET" && session)
    return json(response, 200, shown(fake, session, received));
  if (place.startsWith("/v1") && method === "POST" && id === "") return json(response, 200, begin(fake, received));
  json(response, 404, { error: { type: "invalid_request_error", code: "resource_missing", message: "No such" } });
}

/** A page as of https://docs.stripe.com/api/events/list: the newest first. */
function listEvents({ events }: FakeStripe, path: string): object {
  const asked = new URL(path, "http://stripe").searchParams;
  const types = [...asked].filter(([name]) => /^types\[\d*\]$/.test(name)).map(([, type]) => type);
  const [from, until] = [Number(asked.get("created[gte]")), Number(asked.get("created[lt]"))];
  const found = events
    .filter(({ type, created }) => types.includes(type) && created >= from && created < until)
    .toSorted((one, other) => other.created - one.created);
  const behind = found.findIndex(({ id }) => id === asked.get("starting_after")) + 1;
  const limit = Number(asked.get("limit"));
  const data = found.slice(behind, behind + limit);
  return { object: "list", url: "/v1/events", data, has_more: found.length > behind + limit };
}

function shown({ cards }: FakeStripe, session: FakeSession, { path }: ReceivedRequest): object {
  const isExpanded = decodeURIComponent(path).includes("payment_intent.payment_method");
  if (!isExpanded || session.payment_intent === null) return session;
  const { payment_intent: id } = session;
  return { ...session, payment_intent: { id, object: "payment_intent", payment_method: cards.methodOf(session.id) } };
}

/** The same idempotency key gets the session of the first time. */
function begin({ sessions, pageUrl }: FakeStripe, { rawBody, headers }: ReceivedRequest): FakeSession {
  const id = `cs_test_${headers["idempotency-key"]?.toString() ?? randomUUID()}`;
  const form = new URLSearchParams(rawBody.toString());
  const field = (name: string): string => form.get(name) ?? "";
  const metadata = [...form].flatMap(([name, value]) => {
    const key = /^metadata\[(\w+)\]$/.exec(name)?.[1];
    return key === undefined ? [] : [[key, value] as const];
  });
  const made: FakeSession = {
    id,
    object: "checkout.session",
    status: "open",
    payment_status: "unpaid",
    payment_intent: null,
    amount_total: Number(field("line_items[0][price_data][unit_amount]")) * Number(field("line_items[0][quantity]")),
    currency: field("line_items[0][price_data][currency]"),
    client_reference_id: form.get("client_reference_id"),
    metadata: Object.fromEntries(metadata),
    success_url: field("success_url"),
    cancel_url: field("cancel_url"),
    url: `${pageUrl}/pay/${id}`,
    customer: field("customer_creation") === "always" ? "new" : null,
    setup_future_usage: form.get("payment_intent_data[setup_future_usage]"),
  };
  const session = sessions.get(id) ?? made;
  sessions.set(id, session);
  return session;
}

async function pay(fake: FakeStripe, session: FakeSession, response: ServerResponse): Promise<void> {
  if (session.status === "open") {
    fake.pay(session.id);
    // Stripe does not wait for the webhook for ever, and sends people back whatever it said.
    await fake.tell("checkout.session.completed", session).catch(() => undefined);
  }
  response.writeHead(303, { location: session.success_url }).end();
}

function showPay({ id, amount_total: cents, cancel_url: cancelUrl }: FakeSession, response: ServerResponse): void {
  const page: Markup = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>Pay</title>
      </head>
      <body>
        <main>
          <h1>Pay ${(cents / 100).toFixed(2)} USD</h1>
          <form method="post" action="/pay/${id}"><button>Pay</button></form>
          <p><a href="${cancelUrl}">Back</a></p>
        </main>
      </body>
    </html>`;
  response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end(render(page));
}

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
