import { hash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * What browsers are given beside pages: the files in static/, and scripts of packages as they were installed. Their
 * path changes with their content, so browsers may keep them for ever.
 */
type Assets = {
  folders: string[];
  prefix: string;
  /** Whether a path below the prefix is one of them: nothing else in the folders of packages is served. */
  isServed: (path: string) => boolean;
  /**
   * Ours first: Oat's rules are in layers and win over none of them, and whatever a browser draws before it has all of
   * them has our pictures, not Oat's, which the policy refuses.
   */
  styleUrls: string[];
  chartStyleUrl: string;
  iconUrl: string;
  /** The sprite whose symbols pages show. */
  iconsUrl: string;
  scripts: { url: string; isModule: boolean }[];
};

const ofPackages = [
  import.meta.resolve("@knadh/oat/oat.min.css"),
  import.meta.resolve("htmx.org/dist/htmx.min.js"),
  import.meta.resolve("uplot/dist/uPlot.iife.min.js"),
  import.meta.resolve("uplot/dist/uPlot.min.css"),
].map((url) => fileURLToPath(url));

function readAssets(): Assets {
  const folder = join(import.meta.dirname, "../static");
  const own = readdirSync(folder).toSorted();
  const files = [...ofPackages, ...own.map((name) => join(folder, name))];
  const contents = hash("sha256", Buffer.concat(files.map((file) => readFileSync(file))));
  const prefix = `/static/${contents.slice(0, 16)}/`;
  const names = new Set(files.map((file) => basename(file)));
  const script = (isModule: boolean) => (name: string) => ({ url: prefix + name, isModule });
  const isScript = (name: string): boolean => name.endsWith(".js");
  return {
    folders: [folder, ...new Set(ofPackages.map((file) => dirname(file)))],
    prefix,
    isServed: (path) => names.has(path.slice(1)),
    styleUrls: ["frame.css", "parts.css", "oat.min.css"].map((name) => prefix + name),
    chartStyleUrl: `${prefix}uPlot.min.css`,
    iconUrl: `${prefix}icon.svg`,
    iconsUrl: `${prefix}icons.svg`,
    // Those of packages put their names where our modules, which come after them, find them.
    scripts: [
      ...ofPackages
        .map((file) => basename(file))
        .filter(isScript)
        .map(script(false)),
      ...own.filter(isScript).map(script(true)),
    ],
  };
}

export const assets: Assets = readAssets();
