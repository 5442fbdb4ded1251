import { createLog } from "#shared/process/log.ts";
import { createPool } from "#shared/stores/postgres.ts";
import { archiveDay } from "../archive/archive-day.ts";
import { openFolder } from "../archive/folder.ts";
import { restoreDay } from "../archive/restore-day.ts";
import { readSigningKey } from "#shared/money/report.ts";

// A process that a test kills on its way: moves a day out of the ledger, or reads it back.
const [, , way, url = "", folder = "", day = "", pem = ""] = process.argv;
await using pool = createPool(url, "billing", () => undefined);
const place = openFolder(folder);
const stop = new AbortController().signal;
const log = createLog("test", "silent");
const clock = { nowMs: () => Date.now() };
if (way === "archive") await archiveDay({ pool, place, signingKey: readSigningKey(pem), clock, log }, day, stop);
else await restoreDay({ pool, place }, day, { stop, told: () => undefined });
