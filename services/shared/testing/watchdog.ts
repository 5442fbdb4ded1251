import { spawn } from "node:child_process";
import type { Socket } from "node:net";
import { join } from "node:path";

let input: Socket | undefined;

// One watchdog per process, started when the first child is. It outlives even a SIGKILL of this process, which no
// exit hook would see.
function tell(line: string): void {
  input ??= startWatchdog();
  input.write(`${line}\n`);
}

function startWatchdog(): Socket {
  const script = join(import.meta.dirname, "watchdog.sh");
  const watchdog = spawn("sh", [script], { detached: true, stdio: ["pipe", "ignore", "ignore"], cwd: "/" });
  const pipe = watchdog.stdin as unknown as Socket;
  // Without a watchdog everything still works; only an orderly end is then left to clean up.
  watchdog.on("error", () => undefined);
  pipe.on("error", () => undefined);
  watchdog.unref();
  pipe.unref();
  return pipe;
}

/** From now on the process gets `signal` when this process dies before `forget`. */
export function guard(pid: number, signal: NodeJS.Signals): void {
  tell(`guard ${pid} ${signal.replace("SIG", "")}`);
}

/** The process has ended by itself. */
export function forget(pid: number): void {
  tell(`forget ${pid}`);
}

/** The folder is deleted when this process ends; its path may hold no white space. */
export function removeAtEnd(folder: string): void {
  tell(`remove ${folder}`);
}
