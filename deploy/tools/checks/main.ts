import { availableParallelism } from "node:os";
import { repository, run } from "./run.ts";

// What `npm run check` runs, the longest first. Two at once, since most of them keep one core busy; more would take too
// much memory. Each tells what it has found under its heading when it has ended.
const scripts = ["lint", "types", "dead", "contracts", "format"].values();

// Programs in Go clear up after every few megabytes, which takes them a quarter of their time.
process.env["GOGC"] ??= "400";

async function work(): Promise<void> {
  for (const script of scripts) {
    const { code, output, errors } = await run("npm", ["run", "--silent", script], repository);
    process.stdout.write(`== ${script} (npm run ${script})${code === 0 ? "" : " FAILED"}\n${output}${errors}`);
    if (code !== 0) process.exitCode = 1;
  }
}

await Promise.all(Array.from({ length: Math.min(2, availableParallelism()) }, work));
