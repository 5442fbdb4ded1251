import { writeFileSync } from "node:fs";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { App } from "../app.ts";
import type { Config } from "../config.ts";
import { startWorld, type World } from "./console.ts";
import { startFakeStripe, type FakeStripe } from "./fake-stripe.ts";

export const secretKey = "secret-key-of-the-tests";
export const webhookSecret = "webhook-secret-of-the-tests";

/** A world that takes payments by a stand-in of Stripe, which tells the first replica of them. */
export type PaymentEnvironment = AsyncDisposable & { world: World; stripe: FakeStripe };

export const webhookOf = ({ httpPort }: App): string => `http://127.0.0.1:${httpPort}/payments/stripe/webhook`;

export async function startPaying(change: Partial<Config> = {}): Promise<PaymentEnvironment> {
  await using resources = new AsyncDisposableStack();
  const stripe = resources.use(await startFakeStripe({ webhookSecret }));
  const folder = resources.use(await mkdtempDisposable(join(tmpdir(), "console-stripe-")));
  const file = (name: string, content: string): string => {
    writeFileSync(join(folder.path, name), content);
    return join(folder.path, name);
  };
  const world = resources.use(
    await startWorld({
      STRIPE_SECRET_KEY_FILE: file("key", `${secretKey}\n`),
      STRIPE_WEBHOOK_SECRET_FILE: file("webhook", `the-next-one\n${webhookSecret}\n`),
      STRIPE_API_URL: stripe.url,
      ...change,
    }),
  );
  stripe.webhookUrl = webhookOf(world.app);
  // As the proxy before the console adds it.
  stripe.webhookHeaders = { "x-forwarded-proto": "https" };
  const owned = resources.move();
  return { world, stripe, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
