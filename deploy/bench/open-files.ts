import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

// Part of util-linux, as taskset is.
const raiser = "prlimit";
const wanted = 65_536;
// Sockets of stores, logs and the like.
const othersFiles = 300;

/** Raises the number of files that this process and all that it will start may open, where that is allowed. */
export function raiseOpenFiles(): void {
  if (openFilesLimit() >= wanted) return;
  try {
    execFileSync(raiser, [`--pid=${process.pid}`, `--nofile=${wanted}:${wanted}`], { stdio: "ignore" });
  } catch {
    // Then fewer streams are opened, and the bench says so.
  }
}

/** How many files this process may open at most. */
export function openFilesLimit(): number {
  try {
    const limits = readFileSync("/proc/self/limits", "latin1");
    return Number(/^Max open files +\d+ +(\d+)/m.exec(limits)?.[1]) || wanted;
  } catch {
    return wanted;
  }
}

/** The most streams that a proxy can have open, which takes two sockets for each. */
export function maxStreams(limit: number): number {
  return Math.floor((limit - othersFiles) / 2);
}
