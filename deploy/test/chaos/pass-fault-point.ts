import { existsSync, readFileSync, renameSync, unlinkSync } from "node:fs";
import { join } from "node:path";

const folder = process.env["FAULT_FOLDER"] ?? "";

/** Patched sources call it at their fault points: the process kills or stops itself there when the point is armed. */
function passFaultPoint(name: string): void {
  const file = join(folder, name);
  if (!existsSync(file)) return;
  const own = `${file}.${process.pid}`;
  try {
    renameSync(file, own);
  } catch {
    // Another replica was there first.
    return;
  }
  const signal = readFileSync(own, "utf8") as NodeJS.Signals;
  unlinkSync(own);
  // Does not return before the signal is delivered: a process notices its own SIGKILL and SIGSTOP at once.
  process.kill(process.pid, signal);
}

Object.assign(globalThis, { passFaultPoint });
