import type { Command } from "commander";
import { ServiceError, toServiceError } from "#shared/process/errors.ts";
import { makeBackup } from "../backup/backup.ts";
import { type BackupConfig, readBackupConfig, readRestoreConfig, type RestoreConfig } from "../backup/config.ts";
import { dropOldBackups } from "../backup/keep.ts";
import { putBackup, type Restored, untilHealed } from "../backup/restore.ts";
import { type Answer, type Clients, type Output, type Run, type RunAlone } from "./clients.ts";
import { listLost } from "./lost-command.ts";
import { figures } from "./render.ts";
import { reconcile } from "./reconcile-commands.ts";

const hourMs = 3_600_000;
const healMs = 900_000;

type Tools = { environment: NodeJS.ProcessEnv; output: Output; runAlone: RunAlone };
type BackupOptions = { every?: number; keep?: number };

export function addBackupCommands(program: Command, run: Run, { environment, output, runAlone }: Tools): void {
  program
    .command("backup")
    .description("write database, streams and catalog into an empty folder, as of one moment")
    .argument("<folder>", "where to write")
    .option(
      "--every <hours>",
      "time between backups; exits with 1 when the usage stream holds less than twice that",
      Number,
    )
    .option(
      "--keep <count>",
      "whole backups that stay beside this one, itself included; older ones are deleted",
      Number,
    )
    .action((folder: string, options: BackupOptions) =>
      runAlone(() => backup(folder, readBackupConfig(environment), options)),
    );
  program
    .command("restore")
    .description("put a backup in place, book again what it lacks, reconcile, and open the API when nothing is wrong")
    .argument("<folder>", "a backup")
    .action((folder: string) =>
      run((clients) => restore(folder, { clients, config: readRestoreConfig(environment), say: output.aside })),
    );
}

async function backup(folder: string, config: BackupConfig, options: BackupOptions): Promise<Answer> {
  const { every: everyHours, keep } = options;
  if (everyHours !== undefined && !(everyHours > 0))
    throw new ServiceError("invalid_argument", "--every is a number of hours");
  if (keep !== undefined && !(Number.isInteger(keep) && keep >= 1))
    throw new ServiceError("invalid_argument", "--keep is a number of backups");
  const { manifest, streamSinceMs } = await makeBackup(folder, config);
  const dropped = keep === undefined ? [] : await dropOldBackups(folder, keep);
  const heldHours = streamSinceMs === undefined ? undefined : (Date.now() - streamSinceMs) / hourMs;
  const isShort = heldHours !== undefined && everyHours !== undefined && heldHours < 2 * everyHours;
  const bytes = manifest.files.reduce((sum, file) => sum + file.bytes, 0);
  return {
    text: figures([
      ["made at", manifest.madeAt],
      ["files", manifest.files.map(({ name }) => name).join(", ")],
      ["bytes", String(bytes)],
      [
        "usage stream holds",
        heldHours === undefined ? "everything since it was made" : `${heldHours.toFixed(1)} hours`,
      ],
      ...(keep === undefined ? [] : [["deleted", dropped.join(", ") || "none"] as [string, string]]),
    ]),
    data: { ...manifest, streamHours: heldHours ?? null, deleted: dropped },
    hint: isShort
      ? "raise USAGE_STREAM_MAX_BYTES or make backups more often: charges between two backups may be lost"
      : undefined,
    isWrong: isShort,
  };
}

type RestoreContext = { clients: Clients; config: RestoreConfig; say: (text: string) => void };

async function restore(folder: string, { clients, config, say }: RestoreContext): Promise<Answer> {
  const { authQuota } = clients;
  const steps = (text: string): void => say(`${text}\n`);
  // A disaster may have left nobody to tell.
  await authQuota.setMaintenance({ isMaintenance: true }).then(
    () => steps("the API is closed"),
    (error: unknown) => steps(`nobody closes the API: ${toServiceError(error).message}`),
  );
  const restored = await putBackup(folder, config);
  steps("the backup is in place; waiting until billing has booked what it lacks");
  if (!(await untilHealed(config, restored.manifest.ledgerEpoch, healMs))) {
    throw new ServiceError(
      "unavailable",
      "billing has not repaired the ledger: start it, see its log, then reconcile and open the API",
    );
  }
  steps("the ledger is whole again; reconciling today");
  const answer = await reconcile(clients, new Date().toISOString().slice(0, 10));
  if (answer.isWrong || answer.isUnchecked) return { ...answer, hint: "the API stays closed: see what is wrong first" };
  await authQuota.setMaintenance({ isMaintenance: false });
  const lost = await listLost(clients);
  return { ...answer, text: [answer.text, lost.text, summaryOf(restored)].join("\n"), hint: lost.hint };
}

function summaryOf({ manifest, formerDatabase, streams }: Restored): string {
  const made = Object.entries(streams).filter(([, state]) => state === "made");
  return figures([
    ["backup of", manifest.madeAt],
    ["streams made", made.map(([name]) => name).join(", ") || "none: they were there"],
    ["database before", formerDatabase ?? "none"],
    ["API", "open"],
  ]);
}
