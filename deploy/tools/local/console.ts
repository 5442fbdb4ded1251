import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { seededAccountId } from "./seed.ts";
import { startService, type Service } from "./service.ts";
import { claimPort, type LocalState } from "./state.ts";

export type ConsolePlan = {
  folder: string;
  state: LocalState;
  environment: NodeJS.ProcessEnv;
  databaseUrl: string;
  /** Where the other services answer. */
  addresses: Record<"authQuotaAddress" | "billingAddress" | "videoTaskAddress" | "relayAddress" | "relayUrl", string>;
  onLine: (line: string) => void;
};

const host = "127.0.0.1";

/** The key file of a data folder, made at the first start: another one could not open the second factors. */
async function keyFileOf(folder: string): Promise<string> {
  const file = join(folder, "console-secrets.key");
  if (!existsSync(file)) await writeFile(file, `${randomBytes(32).toString("base64")}\n`, { mode: 0o600 });
  return file;
}

/** The bootstrap token that a line of the console's log tells; undefined for every other line. */
export function bootstrapTokenOf(line: string): string | undefined {
  if (!line.includes('"bootstrapToken"')) return undefined;
  return (JSON.parse(line) as { bootstrapToken?: string }).bootstrapToken;
}

/**
 * Starts the console; does not wait until it is ready. Its bootstrap token, which it tells once in a day, goes into the
 * state, from which every start can show it.
 */
export async function startConsole(plan: ConsolePlan): Promise<Service> {
  const { folder, state, environment, addresses } = plan;
  const [port, opsPort] = [await claimPort(state, "console"), await claimPort(state, "console-ops")];
  const url = `http://${host}:${port}`;
  return startService({
    name: "console",
    url,
    opsUrl: `http://${host}:${opsPort}`,
    entry: join(import.meta.dirname, "../../../services/console/main.ts"),
    environment: {
      LOG_LEVEL: "info",
      DRAIN_MS: "5000",
      ...environment,
      HTTP_HOST: host,
      HTTP_PORT: String(port),
      OPS_HOST: host,
      OPS_PORT: String(opsPort),
      DATABASE_URL: plan.databaseUrl,
      AUTH_QUOTA_ADDRESS: addresses.authQuotaAddress,
      BILLING_ADDRESS: addresses.billingAddress,
      VIDEO_TASK_ADDRESS: addresses.videoTaskAddress,
      RELAY_ADDRESSES: addresses.relayAddress,
      API_URL: addresses.relayUrl,
      PUBLIC_URL: url,
      BOOTSTRAP_ACCOUNT: seededAccountId,
      ALLOW_PLAIN_HTTP: "loopback",
      SECRETS_KEY_FILE: await keyFileOf(folder),
    },
    onLine: (line) => {
      const token = bootstrapTokenOf(line);
      if (token === undefined) return plan.onLine(line);
      // Shown by the welcome, and kept in a file for its owner only: a log is copied to more places.
      state.consoleToken = token;
    },
    stopGraceMs: 10_000,
  });
}
