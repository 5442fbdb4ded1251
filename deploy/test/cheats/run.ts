import { setTimeout } from "node:timers/promises";
import { formatUsd, parseUsd } from "#shared/money/money.ts";
import { until } from "#shared/testing/until.ts";
import { catalogText, modelOn, prices, upstreamAt } from "../e2e/catalog.ts";
import { startWorld, type World } from "../e2e/world.ts";
import type { Attack } from "./attacks.ts";
import { startProvider, type Provider, searchNanos } from "./provider.ts";
import { honestTexts } from "./texts.ts";

/** What came of an attack. */
export type Outcome = {
  name: string;
  calls: number;
  /** How many of them were served. */
  served: number;
  billedNanos: bigint;
  chargedNanos: bigint;
  balanceNanos: bigint;
  /** How far below 0 the balance may be; see the relay's README. */
  boundNanos: bigint;
  pending?: string | undefined;
};

/** What the provider bills for each unit that the account is charged. */
export function ratioOf(billedNanos: bigint, chargedNanos: bigint): number {
  if (billedNanos === 0n) return 0;
  return chargedNanos === 0n ? Infinity : Number(billedNanos) / Number(chargedNanos);
}

const drainMs = 1_000;

const maxRatio = 1.1;
/** For a caller who means no harm, where the provider tells no counts. */
export const maxOvercharge = 1.5;

export const isFair = ({ billedNanos, chargedNanos, balanceNanos, boundNanos }: Outcome): boolean =>
  ratioOf(billedNanos, chargedNanos) <= maxRatio && balanceNanos >= -boundNanos;

export type Stage = AsyncDisposable & { world: World; provider: Provider };

/** Starts the system with the provider behind it. */
export async function startStage(): Promise<Stage> {
  await using resources = new AsyncDisposableStack();
  const provider = resources.use(await startProvider());
  const price = {
    version: "cheats-1",
    input_tokens: formatUsd(prices.inputTokens),
    output_tokens: formatUsd(prices.outputTokens),
  };
  const writePrices = {
    cache_write_5m_tokens: formatUsd(prices.cacheWrite5mTokens),
    cache_write_1h_tokens: formatUsd(prices.cacheWrite1hTokens),
  };
  const model = (more: object = {}) => modelOn("provider", { context_tokens: 1_000_000, price, ...more });
  const searches = formatUsd(searchNanos * 1_000_000n);
  const world = resources.use(
    await startWorld({
      catalog: () =>
        catalogText({
          upstreams: {
            provider: upstreamAt(provider.url, {
              first_byte_timeout_ms: 60_000,
              idle_timeout_ms: 60_000,
              on_caller_gone: "drain",
            }),
          },
          models: {
            told: model(),
            untold: model(),
            sharing: model({ shared_state: ["response", "conversation", "prompt", "file"] }),
            liar: model({ quirks: ["untrusted-counts"] }),
            dearer: model(),
            caching: model({ price: { ...price, ...writePrices } }),
            completing: model({ dialects: ["openai-completions"] }),
            searching: model({ price: { ...price, web_searches: searches } }),
            sound: modelOn("provider", {
              dialects: ["openai-transcriptions"],
              price: { version: "cheats-1", media_ms: "0.1" },
            }),
          },
        }),
    }),
  );
  const owned = resources.move();
  return { world, provider, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

function requestOf(attack: Attack, secret: string): RequestInit {
  const { model = "told", body, raw, form, path } = attack;
  const headers: Record<string, string> = { authorization: `Bearer ${secret}` };
  if (path === "/v1/messages") Object.assign(headers, { "x-api-key": secret, "anthropic-version": "2023-06-01" });
  if (!form) headers["content-type"] = attack.contentType ?? "application/json";
  if (!form) return { method: "POST", headers, body: raw ?? JSON.stringify({ model, ...body }) };
  const data = new FormData();
  data.set("model", model);
  for (const [name, value] of Object.entries(form.fields)) data.set(name, value);
  data.set("file", new Blob([new Uint8Array(form.file)]), "a.bin");
  return { method: "POST", headers, body: data };
}

/** Makes a call and reads its answer; whether it was served. */
async function call({ world, provider }: Stage, attack: Attack, secret: string): Promise<boolean> {
  const caller = new AbortController();
  const url = `${world.relayUrl}${attack.path ?? "/v1/chat/completions"}`;
  const answer = fetch(url, { ...requestOf(attack, secret), signal: caller.signal })
    .then(async (reply) => ({ isServed: reply.ok, text: await reply.text() }))
    .catch(() => ({ isServed: attack.hangsUp === true, text: "" }));
  if (attack.hangsUp) {
    await provider.hasStopped();
    caller.abort();
    await answer;
    // An upstream that is drained is never hung up on, and goes on.
    await Promise.race([provider.isLeft(), setTimeout(drainMs)]);
    provider.goOn();
  }
  return (await answer).isServed;
}

/** Lets an attack run against the system. */
export async function runAttack(stage: Stage, attack: Attack): Promise<Outcome> {
  const { world, provider } = stage;
  const { name, calls = 1, creditNanos = 20_000_000_000n, plan, pending } = attack;
  const { accountId, secret } = await world.createCustomer({ creditNanos });
  provider.begin(plan);
  const served = await Promise.all(Array.from({ length: calls }, () => call(stage, attack, secret)));
  await until(`${name} is settled`, async () => {
    if (provider.liveCalls() > 0) return undefined;
    const found = await world.moneyOf(accountId);
    return found.openHolds === 0n && found.unpostedCalls === 0n;
  });
  const { balanceNanos } = await world.moneyOf(accountId);
  const lines = await world.ledgerOf(accountId);
  const chargedNanos = -lines.reduce((sum, { amountNanos }) => sum + amountNanos, 0n);
  const callNanos = parseUsd("0.01");
  const boundNanos = BigInt(calls) * callNanos + chargedNanos / 10n;
  const outcome = { name, calls, served: served.filter(Boolean).length, chargedNanos, balanceNanos, boundNanos };
  return { ...outcome, billedNanos: provider.billedNanos(), pending };
}

/** Honest callers: each text as a prompt that is answered with the same. */
export function honestCalls(): { told: Attack[]; untold: Attack[] } {
  const calls = Object.entries(honestTexts).map(([name, text]): Attack => ({
    name,
    body: { messages: [{ role: "user", content: text }], stream: true },
    plan: { answer: text.match(/[\s\S]{1,200}/g) ?? [], tells: "right" },
  }));
  return {
    told: calls,
    untold: calls.map((one) => ({ ...one, model: "untold", plan: { ...one.plan, tells: "nothing" } })),
  };
}
