import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { runCommand } from "../../tools/admin/program.ts";
import { grpcFilesIn } from "../../tools/certificates/folder.ts";
import type { Scenario } from "../chaos/scenario.ts";
import { addChanging, changeThings, checkThings } from "./changes.ts";
import type { Drill } from "./drill.ts";

/** Runs a command of `npm run admin` on the stores and services of the drill; gives its exit code and its words. */
export async function runAdmin({ world }: Scenario, ...words: string[]): Promise<{ code: number; told: string }> {
  const { addresses, stores, tlsFolder, catalogFile } = world.stack;
  const told: string[] = [];
  const tell = (text: string): void => void told.push(text);
  const code = await runCommand(words, {
    environment: {
      PATH: process.env["PATH"],
      AUTH_QUOTA_ADDRESS: addresses.authQuotaAddress,
      BILLING_ADDRESS: addresses.billingAddress,
      ...grpcFilesIn(tlsFolder, "admin"),
      DATABASE_OWNER_URL: stores.urls.postgres,
      NATS_URL: stores.urls.nats,
      CATALOG_FILE: catalogFile,
    },
    addressesFile: "",
    output: { answer: tell, aside: tell },
  });
  return { code, told: told.join("") };
}

async function admin(scenario: Scenario, ...words: string[]): Promise<void> {
  const { code, told } = await runAdmin(scenario, ...words);
  scenario.say(`  ${told.trimEnd().replaceAll("\n", "\n  ")}`);
  if (code !== 0) throw new Error(`${words[0]} ended with ${code}: ${told}`);
}

/** Puts a backup back while calls run; the API is closed meanwhile, by the command itself. */
const restoreUnderLoad: Drill = {
  name: "backup-restore",
  says: "a backup is made and later restored with `npm run admin`, while calls run",
  stage: async (resources) => {
    const folder = await mkdtemp(join(tmpdir(), "relay-backup-drill-"));
    resources.defer(() => rm(folder, { recursive: true, force: true }));
    return {
      harm: async (scenario, round) => {
        const before = await addChanging(round);
        await round.more(40);
        await admin(scenario, "backup", join(folder, "backup"), "--every", "1");
        await round.more(40);
        const changes = await changeThings(scenario, round, before);
        await round.more(40);
        // As long as a line by hand may take to the stream.
        await pause(1_000);
        await admin(scenario, "restore", join(folder, "backup"));
        await round.untilServed();
        await round.more(60);
        await checkThings(round, changes);
      },
    };
  },
};

export const backupDrills: readonly Drill[] = [restoreUnderLoad];
