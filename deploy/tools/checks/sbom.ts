import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { repository, run } from "./run.ts";

// Prints a CycloneDX list of the lock file's packages that production has. npm itself leaves out with `--omit=dev` what
// a package of development needs too, so it is shown a lock file that has none of these.

type Package = { dev?: boolean; devDependencies?: object };
type Lock = { packages: Record<string, Package> };

const read = async (name: string): Promise<unknown> => JSON.parse(await readFile(join(repository, name), "utf8"));

const { devDependencies: _, ...manifest } = (await read("package.json")) as Package;
const lock = (await read("package-lock.json")) as Lock;
const packages = Object.fromEntries(Object.entries(lock.packages).filter(([, { dev }]) => dev !== true));
delete packages[""]?.devDependencies;

await using parent = await mkdtempDisposable(join(tmpdir(), "sbom-"));
await writeFile(join(parent.path, "package.json"), JSON.stringify(manifest));
await writeFile(join(parent.path, "package-lock.json"), JSON.stringify({ ...lock, packages }));
const words = ["sbom", "--package-lock-only", "--sbom-format=cyclonedx", "--sbom-type=application"];
const { code, output, errors } = await run("npm", words, parent.path);
process.stdout.write(output);
process.stderr.write(errors);
process.exitCode = code;
