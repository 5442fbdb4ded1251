import type { Profiler } from "node:inspector";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { ServiceName } from "../tools/local/stack.ts";
import { renderSummary, summarizeProfile } from "./profile-summary.ts";

const services: readonly ServiceName[] = ["relay", "auth-quota", "billing"];
const root = `${pathToFileURL(join(import.meta.dirname, "../..")).href}/`;
// What starting and compiling takes is not the price of a call; of a short run half is left.
const maxSkippedMs = 10_000;
const most = 3;

/** Variables by which the services that work for a call write a CPU profile when they end, each into its own folder. */
export function profilingVariables(folder: string): Partial<Record<ServiceName, Record<string, string>>> {
  const given = process.env["NODE_OPTIONS"] ?? "";
  const variables = (name: ServiceName) => ({
    NODE_OPTIONS: `${given} --cpu-prof "--cpu-prof-dir=${join(folder, name)}"`.trim(),
  });
  return Object.fromEntries(services.map((name) => [name, variables(name)]));
}

/** What the profiles of ended services tell, and where they are; of a service that was restarted the largest one. */
export async function tellProfiles(folder: string): Promise<string> {
  const told: string[] = [];
  for (const name of services) {
    const file = await largestIn(join(folder, name));
    if (file === undefined) {
      told.push(`${name}: no profile was written`);
      continue;
    }
    const profile = JSON.parse(await readFile(file, "utf8")) as Profiler.Profile;
    const skipMs = Math.min(maxSkippedMs, (profile.endTime - profile.startTime) / 2_000);
    told.push(`${renderSummary(name, summarizeProfile(profile, { root, skipMs, most }))}\n${file}`);
  }
  return told.join("\n\n");
}

async function largestIn(folder: string): Promise<string | undefined> {
  const names = await readdir(folder).catch(() => []);
  const files = await Promise.all(
    names.map(async (name) => ({ file: join(folder, name), bytes: (await stat(join(folder, name))).size })),
  );
  return files.toSorted((a, b) => b.bytes - a.bytes)[0]?.file;
}
