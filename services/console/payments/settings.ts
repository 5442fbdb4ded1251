import { readFileSync } from "node:fs";
import type { Clock } from "#shared/process/clock.ts";
import type { Config } from "../config.ts";
import type { PaymentProvider } from "./provider.ts";
import { createStripe } from "./stripe.ts";

const maxSecrets = 10;

/** The payment provider that is set up, if one is. Throws an Error that names the file's variable, not its content. */
export function createPayments(config: Config, clock: Clock): PaymentProvider | undefined {
  const { STRIPE_SECRET_KEY_FILE, STRIPE_WEBHOOK_SECRET_FILE, STRIPE_API_URL } = config;
  if (STRIPE_SECRET_KEY_FILE === "") return undefined;
  const [secretKey = ""] = readSecrets("STRIPE_SECRET_KEY_FILE", STRIPE_SECRET_KEY_FILE, 1);
  const webhookSecrets = readSecrets("STRIPE_WEBHOOK_SECRET_FILE", STRIPE_WEBHOOK_SECRET_FILE, maxSecrets);
  return createStripe({ secretKey, webhookSecrets, apiUrl: new URL(STRIPE_API_URL), clock });
}

function readSecrets(variable: string, file: string, maxLines: number): string[] {
  const lines = readFileSync(file, "utf8").split("\n");
  const secrets = lines.map((line) => line.trim()).filter((line) => line !== "");
  const isUsable = secrets.every((secret) => /^[!-~]{1,500}$/.test(secret));
  if (!isUsable || secrets.length < 1 || secrets.length > maxLines) {
    throw new Error(
      `${variable} must name a file with ${maxLines === 1 ? "one line" : `1 to ${maxLines} lines`} of a secret`,
    );
  }
  return secrets;
}
