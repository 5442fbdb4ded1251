import { join } from "node:path";
import { runCommand } from "./program.ts";

// Whoever reads, such as `head`, may leave before the end.
process.stdout.on("error", () => process.exit(1));

process.exitCode = await runCommand(process.argv.slice(2), {
  environment: process.env,
  addressesFile: join(import.meta.dirname, "../../../.local/addresses.json"),
  output: {
    answer: (text) => void process.stdout.write(text),
    aside: (text) => void process.stderr.write(text),
  },
});
