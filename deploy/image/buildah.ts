import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, rm, statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { removeAtEnd } from "#shared/testing/watchdog.ts";

const run = promisify(execFile);
const neededBytes = 3 * 2 ** 30;
const maxBuffer = 2 ** 26;

/** Images and containers in a folder of their own, which disposal deletes with all that is in it. */
export type Buildah = AsyncDisposable & {
  folder: string;
  /** Runs `buildah` with these words; gives what it prints. Throws with its words when it fails. */
  run: (...words: string[]) => Promise<string>;
  /** Gives a folder with a copy of an image's files. */
  unpack: (image: string) => Promise<string>;
};

/** Opens a store of images that needs no daemon; in memory where there is room, for thousands of small files. */
export async function openBuildah(): Promise<Buildah> {
  const folder = await mkdtemp(join(await roomiestFolder(), "relay-image-"));
  await chmod(folder, 0o711);
  removeAtEnd(folder);
  const place = ["--root", join(folder, "graph"), "--runroot", join(folder, "run")];
  const driver = (await canOverlay(folder)) ? "overlay" : "vfs";
  const environment = { ...process.env, BUILDAH_ISOLATION: "chroot", TMPDIR: folder };
  const buildah = async (...words: string[]): Promise<string> => {
    const all = [...place, "--storage-driver", driver, ...words];
    return (await run("buildah", all, { env: environment, maxBuffer })).stdout.trim();
  };
  return {
    folder,
    run: buildah,
    unpack: async (image) => {
      const container = await buildah("from", "--pull-never", image);
      const files = join(folder, "files");
      // Copied, since a mount would outlive this process when that is killed, and keep the folder from being deleted.
      await run("cp", ["-a", await buildah("mount", container), files]);
      await buildah("rm", container);
      return files;
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

async function roomiestFolder(): Promise<string> {
  try {
    const { bavail, bsize } = await statfs("/dev/shm");
    return bavail * bsize > neededBytes ? "/dev/shm" : tmpdir();
  } catch {
    return tmpdir();
  }
}

// Not where the folder lies on such a file system itself, as in most containers.
async function canOverlay(folder: string): Promise<boolean> {
  const [lower, upper, work, merged] = ["lower", "upper", "work", "merged"].map((name) => join(folder, "probe", name));
  for (const path of [lower, upper, work, merged]) await mkdir(path as string, { recursive: true });
  try {
    await run("mount", [
      "-t",
      "overlay",
      "-o",
      `lowerdir=${lower},upperdir=${upper},workdir=${work}`,
      "none",
      `${merged}`,
    ]);
    await run("umount", [merged as string]);
    return true;
  } catch {
    return false;
  }
}
