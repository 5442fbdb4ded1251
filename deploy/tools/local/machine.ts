import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { promisify } from "node:util";
import { findStoreBinary, findTool, type StoreName, type ToolName } from "#shared/testing/binaries.ts";
import { nextStep, nextToolStep, type Facts, type Step } from "./decide.ts";

const probeTimeoutMs = 15_000;
const run = promisify(execFile);

/** What `prepareStores` and `prepareTools` work with. */
export type Machine = {
  environment: NodeJS.ProcessEnv;
  find: (store: StoreName) => string | undefined;
  findTool: (tool: ToolName) => string | undefined;
  /** Whether this process may do everything. */
  isRoot: boolean;
  say: (text: string) => void;
};

/** This very machine. */
export function thisMachine(say: (text: string) => void): Machine {
  const isRoot = process.getuid?.() === 0;
  return { environment: process.env, find: findStoreBinary, findTool: (tool) => findTool(tool), isRoot, say };
}

export type PreparedMachine = {
  /** Stores that neither have a program here nor could be installed; the caller runs them in containers. */
  inContainers: StoreName[];
};

/**
 * Makes sure that each of the stores has a program on this machine, installing Debian's packages when it must and
 * may, or else that containers can serve them. Throws an Error that says what to install when nothing is left.
 */
export async function prepareStores(wanted: StoreName[], machine: Machine): Promise<PreparedMachine> {
  const missing = (): StoreName[] => wanted.filter((store) => machine.find(store) === undefined);
  if (missing().length === 0) return { inContainers: [] };

  const [apt, hasCompose] = await Promise.all([aptAccess(machine), reachesCompose(machine)]);
  const facts: Facts = { platform: process.platform, missing: missing(), apt, hasCompose, failed: [] };
  let step = nextStep(facts);
  if (step.kind === "apt") {
    machine.say(`installing ${step.packages.join(", ")} with apt-get`);
    await installPackages(step, machine);
    step = nextStep({ ...facts, missing: missing(), failed: ["apt"] });
  }
  if (step.kind === "impossible") throw new Error(step.message);
  return { inContainers: step.kind === "compose" ? step.stores : [] };
}

/** Installs what single tests need where it is missing and may be; says so when such tests are to be skipped. */
export async function prepareTools(wanted: ToolName[], machine: Machine): Promise<void> {
  const missing = (): ToolName[] => wanted.filter((tool) => machine.findTool(tool) === undefined);
  if (missing().length === 0) return;
  const apt = await aptAccess(machine);
  let step = nextToolStep({ missing: missing(), apt, failed: [] });
  if (step.kind === "apt") {
    machine.say(`installing ${step.packages.join(", ")} with apt-get`);
    await installPackages(step, machine);
    step = nextToolStep({ missing: missing(), apt, failed: ["apt"] });
  }
  if (step.kind === "without") for (const message of step.messages) machine.say(message);
}

/** Runs a command with its output shown; returns its exit code, 1 when it was killed, 127 when it cannot start. */
export async function show(command: string, args: string[], settings: ShowSettings): Promise<number> {
  const { environment, output } = settings;
  const child = spawn(command, args, { stdio: ["ignore", output, 2], env: environment });
  try {
    const [code] = (await once(child, "exit")) as [number | null];
    return code ?? 1;
  } catch {
    return 127;
  }
}

export type ShowSettings = {
  environment: NodeJS.ProcessEnv;
  /** Where its standard output goes: 1, or 2 when that is kept for something else. */
  output: 1 | 2;
};

async function succeeds(command: string, args: string[], { environment }: Machine): Promise<boolean> {
  try {
    await run(command, args, { timeout: probeTimeoutMs, env: environment });
    return true;
  } catch {
    return false;
  }
}

async function aptAccess(machine: Machine): Promise<Facts["apt"]> {
  if (!(await succeeds("apt-get", ["--version"], machine))) return "none";
  if (machine.isRoot) return "root";
  return (await succeeds("sudo", ["-n", "true"], machine)) ? "sudo" : "none";
}

async function reachesCompose(machine: Machine): Promise<boolean> {
  return (await succeeds("docker", ["compose", "version"], machine)) && (await succeeds("docker", ["info"], machine));
}

async function installPackages(step: Extract<Step, { kind: "apt" }>, { environment }: Machine): Promise<void> {
  const command = ["sh", join(import.meta.dirname, "install-packages.sh"), ...step.packages];
  const [first, ...rest] = step.withSudo ? ["sudo", "-n", ...command] : command;
  await show(first as string, rest, { environment, output: 2 });
}
