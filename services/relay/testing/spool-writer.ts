import { createLog } from "#shared/process/log.ts";
import { openSpool } from "../charge/spool.ts";

// Started by spool.test.ts to be killed: appends for ever and says each record's name once its append has returned.
const [folder = "", session = ""] = process.argv.slice(2);
const limits = { segmentBytes: 10_000, maxBytes: 1_000_000_000, keptSegments: 0, syncMs: 100 };
const spool = await openSpool(folder, session, { log: createLog("writer", "silent"), ridOf: String, limits });
for (let count = 0; ; count += 1) {
  const rid = `${session}-${count}`;
  spool.append(rid, Buffer.from(`${rid} ${"x".repeat(count % 500)}`));
  await new Promise((written) => process.stdout.write(`${rid}\n`, written));
}
