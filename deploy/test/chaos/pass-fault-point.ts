import { existsSync, readFileSync, renameSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { fileNameOf } from "./fault-file.ts";

const folder = process.env["FAULT_FOLDER"] ?? "";

/** What `faultPoint` of a service does in a process that imports this: kill or stop itself where the point is armed. */
function passFaultPoint(name: string): void {
  const file = join(folder, fileNameOf(name));
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
