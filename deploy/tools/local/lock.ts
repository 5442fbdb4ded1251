import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { link, rm, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { askLoopback } from "#shared/testing/loopback.ts";

type Holder = { pid: number; port: number; token: string };

export type FolderLock = AsyncDisposable & {
  /** Whether an earlier holder died without giving the lock back. */
  wasAbandoned: boolean;
};

/**
 * Makes this process the only one that uses a data folder; throws an Error that names the other one. The holder
 * answers with a token on a port, since a process id alone may by now belong to a stranger.
 */
export async function lockFolder(folder: string): Promise<FolderLock> {
  const file = join(folder, "lock");
  const before = readHolder(file);
  if (before && (await isAlive(before))) {
    throw new Error(`${folder} is in use by process ${before.pid}: stop that one first (Ctrl-C in its terminal)`);
  }
  if (before) await rm(file, { force: true });

  const token = randomUUID();
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.end(token);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port: 0, host: "127.0.0.1" }, resolve);
  });
  server.unref();
  const holder: Holder = { pid: process.pid, port: (server.address() as AddressInfo).port, token };
  // Written aside and linked: the lock file is complete from its first moment, and only one start can make it.
  const draft = `${file}.${token}`;
  await writeFile(draft, JSON.stringify(holder), { mode: 0o600 });
  try {
    await link(draft, file);
  } catch (error) {
    server.close();
    throw new Error(`${folder} was taken by another start at the same moment`, { cause: error });
  } finally {
    await rm(draft, { force: true });
  }
  return {
    wasAbandoned: before !== undefined,
    [Symbol.asyncDispose]: async () => {
      server.close();
      await rm(file, { force: true });
    },
  };
}

function readHolder(file: string): Holder | undefined {
  if (!existsSync(file)) return undefined;
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Holder;
  } catch {
    // Not one of ours, or gone since: nobody answers for it.
    return { pid: 0, port: 0, token: "" };
  }
}

async function isAlive({ port, token }: Holder): Promise<boolean> {
  try {
    await askLoopback(port, "", (answer) => answer === token);
    return true;
  } catch {
    return false;
  }
}
