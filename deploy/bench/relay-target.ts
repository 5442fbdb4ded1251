import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { connectGrpc, unaryClient, type UnaryClient } from "#shared/grpc.ts";
import { costNanos } from "#shared/pricing.ts";
import { removeAtEnd } from "#shared/testing/watchdog.ts";
import { startStack, type Stack } from "../local/stack.ts";
import { claim, model } from "./answers.ts";
import type { Cores } from "./cores.ts";
import type { Target } from "./targets.ts";

const callsPerMinute = 1_000_000;
const creditNanos = 1_000_000_000_000_000n;
const callTimeoutMs = 10_000;
const auditTimeoutMs = 60_000;
const accountId = "acct_bench";

// USD per 1,000,000 tokens, as the catalog wants them; the same in nano-USD for the audit.
const price = { inputTokens: "1.00", outputTokens: "2.00" };
const priceNanos = { inputTokens: 1_000_000_000n, outputTokens: 2_000_000_000n };

/** The relay with all that stands behind it, for as long as the bench runs. */
export type RelayTarget = Target &
  AsyncDisposable & {
    /** Compares the ledger with the calls that were answered; returns its finding in words. */
    audit: (calls: number) => Promise<{ isRight: boolean; finding: string }>;
  };

/**
 * Starts the whole stack in a folder of its own, with an account whose money and rate limits do not run out: limits
 * are raised, not switched off, so every call still pays for them.
 */
export async function startRelay(upstreamOrigin: string, cores: Cores): Promise<RelayTarget> {
  await using resources = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "relay-bench-"));
  removeAtEnd(folder);
  resources.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  const stack = resources.use(
    await startStack({
      folder,
      environment: process.env,
      serviceEnvironment: { "auth-quota": { IP_REQUESTS_PER_MINUTE: String(callsPerMinute) } },
      catalog: catalogFor(upstreamOrigin),
      onLine: () => undefined,
    }),
  );
  cores.moveToMeasured(stack.services.relay.pid);
  const authQuota = unaryClient(
    AuthQuotaService,
    resources.use(connectGrpc(stack.addresses.authQuotaAddress)),
    callTimeoutMs,
  );
  const billing = unaryClient(
    BillingService,
    resources.use(connectGrpc(stack.addresses.billingAddress)),
    callTimeoutMs,
  );
  const secret = await openAccount(authQuota, billing);
  const owned = resources.move();
  return {
    name: "relay",
    port: portOf(stack),
    pid: stack.services.relay.pid,
    companionPids: [stack.services.authQuota.pid, stack.services.billing.pid],
    secret,
    audit: (calls) => audit({ authQuota, billing, calls }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

type Clients = { authQuota: UnaryClient<typeof AuthQuotaService>; billing: UnaryClient<typeof BillingService> };

async function openAccount(authQuota: Clients["authQuota"], billing: Clients["billing"]): Promise<string> {
  await authQuota.createAccount({ name: "Bench", accountId, requestsPerMinute: callsPerMinute });
  await billing.credit({ accountId, amountNanos: creditNanos, paymentId: "bench", note: "Play money of the bench" });
  const { secret } = await authQuota.createKey({ accountId, name: "Bench" });
  return secret;
}

// Billing books behind the calls; the audit waits until nothing is on its way any more.
async function audit({ authQuota, billing, calls }: Clients & { calls: number }) {
  const deadlineMs = performance.now() + auditTimeoutMs;
  let holds = await authQuota.getHolds({ accountId });
  while (holds.openHolds + holds.unpostedCalls > 0n && performance.now() < deadlineMs) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    holds = await authQuota.getHolds({ accountId });
  }
  const { chargedNanos } = await billing.getBalance({ accountId });
  const expectedNanos = BigInt(calls) * costNanos(unitsOf(claim), priceNanos);
  const isRight = chargedNanos === expectedNanos && holds.openHolds + holds.unpostedCalls === 0n;
  const rest = `${holds.openHolds} holds open, ${holds.unpostedCalls} charges not yet booked`;
  const sums = `charged ${chargedNanos} nano-USD for ${calls} whole calls worth ${expectedNanos}`;
  return { isRight, finding: `${sums}; ${rest}` };
}

function unitsOf({ inputTokens, outputTokens }: typeof claim) {
  return { inputTokens: BigInt(inputTokens), outputTokens: BigInt(outputTokens) };
}

function portOf(stack: Stack): number {
  return Number(new URL(stack.services.relay.url).port);
}

function catalogFor(upstreamOrigin: string): string {
  return `upstreams:
  bench:
    base_url: ${upstreamOrigin}
    dialects: [openai-chat]
    credential: { env: DEMO_API_KEY }
models:
  ${model}:
    owned_by: bench
    upstreams: [{ name: bench }]
    context_tokens: 128000
    max_output_tokens: 4096
    price: { version: bench-1, input_tokens: "${price.inputTokens}", output_tokens: "${price.outputTokens}" }
`;
}
