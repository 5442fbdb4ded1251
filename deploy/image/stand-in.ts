import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { copyFile, cp, mkdir, readFile, realpath, symlink, writeFile } from "node:fs/promises";
import { delimiter, dirname, join, resolve } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

// What the Dockerfile's build stage runs.
const buildPrograms = ["sh", "env", "find", "rm", "mkdir"].map((name) => `/usr/bin/${name}`);
const copyPrograms = ["sh", "mkdir", "cp"].map((name) => `/usr/bin/${name}`);
// Parts of libc that nothing of it is linked with: they resolve names, and packages with native code want them.
const partsOfLibc = ["libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2", "librt.so.1"];
const passwd = "root:x:0:0:root:/root:/bin/sh\nnonroot:x:65532:65532::/home/nonroot:/sbin/nologin\n";

/** Settings of npm on this machine: where it is, what a build needs besides, and its settings as one file. */
export type MachineNpm = { folder: string; caFile: string | undefined; settings: string };

/** Folders from which images are made that stand in for the bases. */
export type StandIns = { build: string; runtime: string; postgres: string };

/** What npm goes by here. A registry of one's own, its credentials and its authorities are among it. */
export async function machineNpm(): Promise<MachineNpm> {
  // Not the one of node_modules/.bin, should there ever be one.
  const path = (process.env["PATH"] ?? "").split(delimiter).filter((folder) => !folder.includes("node_modules"));
  const program = path.map((folder) => join(folder, "npm")).find(existsSync);
  if (program === undefined) throw new Error("npm is not on PATH");
  const keys = ["registry", "cafile", "userconfig", "globalconfig"];
  const { stdout } = await run("npm", ["config", "get", ...keys]);
  const values = Object.fromEntries(
    stdout
      .trim()
      .split("\n")
      .map((line) => line.split("=", 2)),
  ) as Record<string, string>;
  const files = [values["globalconfig"], values["userconfig"]].filter((file) => file !== undefined && existsSync(file));
  const texts = await Promise.all(files.map((file) => readFile(file as string, "utf8")));
  const caFile = process.env["NODE_EXTRA_CA_CERTS"] ?? (values["cafile"] === "null" ? undefined : values["cafile"]);
  return {
    folder: resolve(dirname(await realpath(program)), ".."),
    caFile,
    settings: [...texts, `registry=${values["registry"]}`, ""].join("\n"),
  };
}

/**
 * Makes folders from which images can be made that stand in for the Dockerfile's bases: this machine's Node with the
 * libraries that it needs, in the place where the base has it, for the build stage npm and a shell, and PostgreSQL's
 * programs for backups, of which this machine's are in `postgresFolder`.
 */
export async function makeStandIns(folder: string, npm: MachineNpm, postgresFolder: string): Promise<StandIns> {
  const runtime = await makeRoot(join(folder, "runtime"), ["/nodejs/bin/node"], []);
  const build = await makeRoot(join(folder, "build"), ["/usr/local/bin/node"], buildPrograms);
  const rootfs = join(build, "rootfs");
  await cp(npm.folder, join(rootfs, "usr/local/lib/npm"), { recursive: true });
  await symlink("../lib/npm/bin/npm-cli.js", join(rootfs, "usr/local/bin/npm"));
  const variables = ["PATH=/usr/local/bin:/usr/bin:/bin"];
  if (npm.caFile !== undefined) {
    await copyInto(rootfs, npm.caFile);
    variables.push(`NODE_EXTRA_CA_CERTS=${npm.caFile}`);
  }
  await writeFile(join(build, "Dockerfile"), `FROM scratch\nCOPY rootfs /\nENV ${variables.join(" ")}\n`);
  const words = 'USER 65532\nENTRYPOINT ["/nodejs/bin/node"]';
  await writeFile(join(runtime, "Dockerfile"), `FROM scratch\nCOPY rootfs /\n${words}\n`);
  const clients = ["pg_dump", "pg_restore"].map((name) => join(postgresFolder, name));
  const postgres = await makeRoot(join(folder, "postgres"), [], [...copyPrograms, ...clients]);
  await writeFile(join(postgres, "Dockerfile"), "FROM scratch\nCOPY rootfs /\nENV PATH=/usr/bin\n");
  return { build, runtime, postgres };
}

async function makeRoot(context: string, nodePlaces: string[], programs: string[]): Promise<string> {
  const rootfs = join(context, "rootfs");
  for (const empty of ["etc", "proc", "dev", "tmp", "root", "var"])
    await mkdir(join(rootfs, empty), { recursive: true });
  await writeFile(join(rootfs, "etc/passwd"), passwd);
  for (const place of nodePlaces) {
    await mkdir(dirname(join(rootfs, place)), { recursive: true });
    await copyFile(process.execPath, join(rootfs, place));
  }
  const libraries = new Set((await Promise.all([process.execPath, ...programs].map(librariesOf))).flat());
  const libc = [...libraries].find((file) => file.includes("libc.so")) as string;
  for (const name of partsOfLibc) libraries.add(join(dirname(libc), name));
  for (const file of [...programs, ...libraries]) if (existsSync(file)) await copyInto(rootfs, file);
  if (programs.length > 0) await symlink("usr/bin", join(rootfs, "bin"));
  return context;
}

async function copyInto(rootfs: string, file: string): Promise<void> {
  await mkdir(dirname(join(rootfs, file)), { recursive: true });
  await copyFile(await realpath(file), join(rootfs, file));
}

async function librariesOf(program: string): Promise<string[]> {
  const { stdout } = await run("ldd", [program]);
  return [...stdout.matchAll(/(\/\S+) \(0x/g)].map(([, file]) => file as string);
}
