import { accessSync, constants, readdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { givenBrowser, searchPath } from "./config.ts";

// Debian keeps nats-server in sbin and PostgreSQL's server apart from PATH; Homebrew has folders of its own.
const wellKnownFolders = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin"];
const postgresRoots = [
  { root: "/usr/lib/postgresql", pattern: /^\d+$/ },
  { root: "/opt/homebrew/opt", pattern: /^postgresql(@\d+)?$/ },
  { root: "/usr/local/opt", pattern: /^postgresql(@\d+)?$/ },
];

// Chromium without windows draws the same pages for less than half of the work.
const shellNames = ["chromium-headless-shell", "chrome-headless-shell"];
const browserNames = [...shellNames, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const macBrowsers = ["Chromium", "Google Chrome"].map((name) => `/Applications/${name}.app/Contents/MacOS/${name}`);

export type StoreName = "redis" | "nats" | "postgres";

/** What single tests need beside the stores, and are skipped without. */
export type ToolName = "headless-shell" | "browser" | "prometheus" | "promtool" | "buildah" | "pgbouncer";

/** The server program of a store, as an absolute path; undefined when this machine has none. */
export function findStoreBinary(store: StoreName, path: string[] = searchPath()): string | undefined {
  if (store === "redis") return findBinary(["redis-server", "valkey-server"], [...path, ...wellKnownFolders]);
  if (store === "nats") return findBinary(["nats-server"], [...path, ...wellKnownFolders]);
  const folders = [...path, ...postgresRoots.flatMap(postgresFolders)];
  return folders.filter((folder) => isExecutable(join(folder, "initdb"))).flatMap(serverIn)[0];
}

/**
 * The browser of browser tests, as an absolute path: the one that CHROMIUM_PATH names, or a Chromium or Chrome of this
 * machine, without windows where it has that; undefined when it has none.
 */
export function findBrowser(path: string[] = searchPath()): string | undefined {
  return givenBrowser() ?? findBinary(browserNames, [...path, ...wellKnownFolders]) ?? macBrowsers.find(isExecutable);
}

/** The program of a tool, as an absolute path; undefined when this machine has none. */
export function findTool(tool: ToolName, path: string[] = searchPath()): string | undefined {
  if (tool === "headless-shell") return givenBrowser() ?? findBinary(shellNames, [...path, ...wellKnownFolders]);
  return tool === "browser" ? findBrowser(path) : findProgram(tool, path);
}

/** Any other program, as an absolute path; undefined when this machine has none of the name. */
export function findProgram(name: string, path: string[] = searchPath()): string | undefined {
  return findBinary([name], [...path, ...wellKnownFolders]);
}

function findBinary(names: string[], folders: string[]): string | undefined {
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find(isExecutable);
}

// The real path: initdb looks for its companions beside the file that it was started from.
function serverIn(folder: string): string[] {
  const server = join(folder, "postgres");
  return isExecutable(server) ? [realpathSync(server)] : [];
}

function postgresFolders({ root, pattern }: { root: string; pattern: RegExp }): string[] {
  try {
    const versions = readdirSync(root).filter((name) => pattern.test(name));
    const newestFirst = versions.sort((a, b) => b.localeCompare(a, "en", { numeric: true }));
    return newestFirst.map((version) => join(root, version, "bin"));
  } catch {
    return [];
  }
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
