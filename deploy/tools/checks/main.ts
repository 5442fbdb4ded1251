import { spawn } from "node:child_process";
import { once } from "node:events";
import { repository } from "./run.ts";

// What `npm run check` runs: one script after the other, each under its heading, until one fails.
const scripts = ["types", "lint", "format", "dead", "contracts"];

for (const script of scripts) {
  process.stdout.write(`== ${script} (npm run ${script})\n`);
  const child = spawn("npm", ["run", "--silent", script], { cwd: repository, stdio: "inherit" });
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) {
    process.stdout.write(`== ${script} FAILED\n`);
    process.exitCode = 1;
    break;
  }
}
