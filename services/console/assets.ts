import { hash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The files in static/. Their path changes with their content, so browsers may keep them for ever. */
export type Assets = { folder: string; prefix: string; styleUrl: string; iconUrl: string };

export function readAssets(): Assets {
  const folder = join(import.meta.dirname, "static");
  const contents = readdirSync(folder)
    .toSorted()
    .map((name) => readFileSync(join(folder, name)));
  const prefix = `/static/${hash("sha256", Buffer.concat(contents)).slice(0, 16)}/`;
  return { folder, prefix, styleUrl: `${prefix}console.css`, iconUrl: `${prefix}icon.svg` };
}
