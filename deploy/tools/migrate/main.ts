import { runMigrate } from "./run.ts";

process.exitCode = await runMigrate(process.env, {
  fault: (text) => void process.stderr.write(`migrate: ${text}\n`),
});
