import { existsSync, globSync, readFileSync } from "node:fs";
import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import type { OnLoadResult, Plugin } from "esbuild";

// The services and the operator's tool as one file each. `npm test` starts several hundred of their processes, each of
// which would find, read and link 600 to 1,600 modules: with them compiled already that is half of a start (the relay
// 0.85 s of a core and 0.45 s as one file, the others 0.50 s and 0.25 s). The code is the same; nothing but `npm test`
// runs it this way.

const root = join(import.meta.dirname, "../../..");

/** Where a process finds the bundles, when there are any. */
export const bundlesVariable = "SERVICE_BUNDLES";

// Native code stays where it is.
const external = ["@node-rs/argon2"];

/** Writes every service and the operator's tool as one file each below a folder. */
export async function bundleServices(folder: string): Promise<void> {
  // Only now: what starts services needs no bundler.
  const { build } = await import("esbuild");
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: globSync(["services/*/main.ts", "deploy/tools/admin/main.ts"], { cwd: root }),
    outdir: folder,
    outbase: root,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    write: false,
    platform: "node",
    format: "esm",
    target: "node24",
    external,
    define: { "import.meta.dirname": "__dirname", "import.meta.url": "__url", "import.meta.main": "false" },
    plugins: [ownPlaces],
    // What packages in CommonJS ask for at run time.
    banner: {
      js: `import { createRequire as __from } from "node:module"; const require = __from(import.meta.url);`,
    },
    logLevel: "warning",
  });
  for (const { path, contents } of outputFiles) {
    await mkdir(dirname(path), { recursive: true });
    // Another run may be starting it.
    await writeFile(`${path}.${process.pid}`, contents);
    await rename(`${path}.${process.pid}`, path);
  }
}

/** Files that look for others beside themselves find them where they were written. */
const ownPlaces: Plugin = {
  name: "own places",
  setup: (building) => {
    building.onLoad({ filter: /\.[cm]?[jt]s$/ }, ({ path }): OnLoadResult | undefined => {
      const text = readFileSync(path, "utf8");
      const known = {
        __dirname: /\b__dirname\b|\bimport\.meta\.dirname\b/.test(text) && dirname(path),
        __filename: /\b__filename\b/.test(text) && path,
        __url: /\bimport\.meta\.url\b/.test(text) && pathToFileURL(path).href,
      };
      const lines = Object.entries(known).flatMap(([name, value]) =>
        value === false ? [] : [`var ${name} = ${JSON.stringify(value)};`],
      );
      if (lines.length === 0) return undefined;
      return { contents: `${lines.join(" ")}${text}`, loader: path.endsWith("ts") ? "ts" : "js" };
    });
  },
};

/** What to run for an entry: its bundle where there is one, unless the process patches sources. */
export function runnable(entry: string, { SOURCE_PATCHES = "[]" }: NodeJS.ProcessEnv): string {
  const folder = process.env[bundlesVariable];
  if (folder === undefined || SOURCE_PATCHES !== "[]") return entry;
  const bundle = join(folder, relative(root, entry).replace(/\.ts$/, ".mjs"));
  return existsSync(bundle) ? bundle : entry;
}
