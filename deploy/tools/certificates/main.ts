import { createLog } from "#shared/process/log.ts";
import { every, stopSignal } from "#shared/process/lifecycle.ts";
import { keepCertificates } from "./folder.ts";

// Makes certificates for gRPC in the folder that the first word names, and renews them until it is stopped.
const log = createLog("certificates", "info");
const folder = process.argv[2];
if (folder === undefined) throw new Error("name the folder of the certificates");

const keep = async (): Promise<void> => {
  const made = keepCertificates(folder, Date.now());
  if (made.length > 0) log.info({ made }, "certificates made");
};
await keep();
await using _renewal = every(3_600_000, keep, log);
await stopSignal();
