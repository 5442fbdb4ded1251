// Adds to package-lock.json the optional platform packages that npm left out of it, so that `npm ci` accepts
// the lock on every platform. npm omits the ones it could not see while resolving (npm/cli#4828) and `npm ci`
// then stops with "Missing: … from lock file". Run by `npm run lock` after a dependency changes.
import { readFileSync, writeFileSync } from "node:fs";

const systems = ["darwin", "linux", "win32", "android", "freebsd", "openharmony", "netbsd", "openbsd", "sunos", "aix"];
const processors = ["arm64", "x64", "arm", "ia32", "ppc64", "riscv64", "s390x", "loong64", "mips64el"];
const spellings = { aarch64: "arm64", armv7: "arm", x86_64: "x64" };

/** Platform fields of an optional package, read from the usual `name-<os>-<cpu>[-<libc>]` form of its name. */
function platformOf(name) {
  const words = name.split(/[-/]/).map((word) => spellings[word] ?? word);
  const pick = (known) => words.filter((word) => known.includes(word));
  const libc = words.some((word) => word.startsWith("musl")) ? ["musl"] : words.includes("gnu") ? ["glibc"] : [];
  const fields = { os: pick(systems), cpu: pick(processors), libc };
  return Object.fromEntries(Object.entries(fields).filter(([, values]) => values.length > 0));
}

const lock = JSON.parse(readFileSync("package-lock.json", "utf8"));
for (const [path, entry] of Object.entries({ ...lock.packages })) {
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    const nested = `${path}/node_modules/${name}`;
    const hoisted = `node_modules/${name}`;
    if (lock.packages[nested] || lock.packages[hoisted]) continue;
    const platform = platformOf(name);
    if (!platform.os) continue;
    lock.packages[hoisted] = { version, ...(entry.dev && { dev: true }), optional: true, ...platform };
  }
}
lock.packages = Object.fromEntries(Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1)));
writeFileSync("package-lock.json", `${JSON.stringify(lock, null, 2)}\n`);
