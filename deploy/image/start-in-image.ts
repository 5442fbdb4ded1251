import { readFileSync } from "node:fs";
import { startProcess } from "#shared/testing/child-process.ts";
import { until } from "#shared/testing/until.ts";
import { forget, guard } from "#shared/testing/watchdog.ts";

/** A process in an image, seen from outside. */
export type InImage = AsyncDisposable & {
  /** What it wrote, standard output and error. */
  output: () => string;
  /** Resolves with its exit code in words. */
  ended: Promise<string>;
  /** Sends it a signal, as `docker stop` does. */
  signal: (signal: NodeJS.Signals) => void;
};

export type ImageProcess = {
  /** Folder of the image's files. */
  root: string;
  /** The image's entry point and the command's words. */
  command: string[];
  /** Its whole environment. */
  environment: Record<string, string>;
};

// What a cluster that allows least gives: no right to write but to /tmp and the relay's spool, no privilege, its own
// processes only, of which it is the first.
const enclose = `
set -e
mount --bind "$0" "$0"
mount -t tmpfs -o mode=1777 none "$0/tmp"
mount -t tmpfs -o uid=65532,gid=65532 none "$0/var/spool/relay"
mount -t proc none "$0/proc"
mount -o remount,bind,ro "$0"
cd "$0"
exec setpriv --no-new-privs chroot --userspec=65532:65532 "$0" "$@"
`;

/** Starts a process as user 65532 with a root of the image's files that it cannot write to. Needs root. */
export async function startInImage({ root, command, environment }: ImageProcess): Promise<InImage> {
  const lines: string[] = [];
  const outside = await startProcess({
    command: "unshare",
    args: ["--mount", "--pid", "--fork", "sh", "-c", enclose, root, ...command],
    environment: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", ...environment },
    orphanSignal: "SIGKILL",
    onLine: (line) => lines.push(line),
  });
  const children = `/proc/${outside.pid}/task/${outside.pid}/children`;
  let pid = 0;
  await until("the process is there", () => {
    pid = Number(outside.isRunning() ? readFileSync(children, "utf8") : -1);
    return pid !== 0;
  });
  // The one inside outlives the one outside, which only waits for it.
  if (pid > 0) guard(pid, "SIGKILL");
  const signal = (name: NodeJS.Signals): void => {
    if (pid > 0 && outside.isRunning()) process.kill(pid, name);
  };
  return {
    output: () => lines.join("\n"),
    ended: outside.ended,
    signal,
    [Symbol.asyncDispose]: async () => {
      signal("SIGKILL");
      await outside.ended;
      if (pid > 0) forget(pid);
    },
  };
}
