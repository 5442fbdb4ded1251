import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { Type, type Static } from "typebox";
import { Value } from "typebox/value";
import { ServiceError } from "#shared/process/errors.ts";

const manifestFile = "manifest.json";

const manifest = Type.Object({
  format: Type.Literal(1),
  /** When the dump was begun; everything that was committed by then is in it. */
  madeAt: Type.String(),
  /** The ledger's epoch in the dump. */
  ledgerEpoch: Type.Integer(),
  /** What JetStream said of each stream, by its name: its configuration and state, to be given back as it is. */
  streams: Type.Record(Type.String(), Type.Object({ config: Type.Unknown(), state: Type.Unknown() })),
  files: Type.Array(Type.Object({ name: Type.String(), bytes: Type.Integer(), sha256: Type.String() })),
});

/** What a backup holds. */
export type Manifest = Static<typeof manifest>;

/** Writes the manifest of these files: a folder without one is no backup. */
export async function writeManifest(
  folder: string,
  { files, ...told }: Omit<Manifest, "files" | "format"> & { files: readonly string[] },
): Promise<Manifest> {
  const described = [];
  for (const name of files) described.push(await describe(folder, name));
  const whole: Manifest = { format: 1, ...told, files: described };
  await writeFile(join(folder, manifestFile), `${JSON.stringify(whole, null, 2)}\n`, { mode: 0o600 });
  return whole;
}

/** What the manifest of a folder says, its files unread; undefined where there is none of this format. */
export async function peekManifest(folder: string): Promise<Manifest | undefined> {
  try {
    const found: unknown = JSON.parse(await readFile(join(folder, manifestFile), "utf8"));
    return Value.Check(manifest, found) ? found : undefined;
  } catch {
    return undefined;
  }
}

/** Reads a manifest and compares each file with it; throws `failed_precondition` where one is not as it was. */
export async function readManifest(folder: string): Promise<Manifest> {
  const text = await readFile(join(folder, manifestFile), "utf8").catch(() => {
    throw new ServiceError(
      "failed_precondition",
      `${folder} has no ${manifestFile}: it is no backup, or an unfinished one`,
    );
  });
  const found: unknown = JSON.parse(text);
  if (!Value.Check(manifest, found))
    throw new ServiceError("failed_precondition", `${manifestFile} is not of format 1`);
  for (const file of found.files) {
    const { bytes, sha256 } = await describe(folder, file.name).catch(() => ({ bytes: -1, sha256: "" }));
    if (bytes === file.bytes && sha256 === file.sha256) continue;
    throw new ServiceError(
      "failed_precondition",
      `${file.name} is not what the backup wrote: it is damaged or missing`,
    );
  }
  return found;
}

async function describe(folder: string, name: string): Promise<Manifest["files"][number]> {
  const path = join(folder, name);
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return { name, bytes: (await stat(path)).size, sha256: hash.digest("hex") };
}
