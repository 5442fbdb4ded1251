import { join } from "node:path";
import { prepareStores, show, thisMachine } from "./machine.ts";

const root = join(import.meta.dirname, "../..");
const say = (text: string): void => void process.stderr.write(`${text}\n`);
const seconds = (sinceMs: number): string => `${((performance.now() - sinceMs) / 1_000).toFixed(1)} s`;

// What `npm test` runs: the stores, installed when they are missing, then every check, then every test.
process.chdir(root);
const startedAt = performance.now();
const runner = ["--test", "--test-concurrency=2", "--test-timeout=120000"];
const patterns = ["services/**/*.test.ts", "deploy/**/*.test.ts"];

async function step(name: string, command: string, args: string[]): Promise<void> {
  const stepStartedAt = performance.now();
  const code = await show(command, args, { environment: process.env, output: 1 });
  say(`${name}: ${code === 0 ? "passed" : "FAILED"} in ${seconds(stepStartedAt)}, ${seconds(startedAt)} in all`);
  if (code !== 0) process.exit(code);
}

try {
  const { inContainers } = await prepareStores(["redis", "nats", "postgres"], thisMachine(say));
  if (inContainers.length > 0) {
    // Tests kill and restart their stores, which takes processes beside them.
    const compose = ["compose", "-f", join(import.meta.dirname, "compose.yaml"), "run", "--rm", "tests"];
    await step("tests in a container", "docker", compose);
  } else {
    await step("check", "npm", ["run", "--silent", "check"]);
    await step("tests", process.execPath, [...runner, ...patterns]);
  }
} catch (error) {
  say(error instanceof Error ? error.message : String(error));
  process.exit(1);
}
