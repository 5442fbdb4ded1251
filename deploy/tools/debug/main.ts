import { once } from "node:events";
import { Command, InvalidArgumentError } from "commander";
import { profileCpu, watchLoop } from "#shared/process/inspector.ts";
import { openInspector, type RemoteInspector } from "./inspector.ts";

// The image's command `debug`: what a running service does, read in its own container by Node's inspector. It opens no
// port to the network, and needs the right to run commands in the pod (pods/exec), which is the operator's.

const write = async (text: string): Promise<void> => {
  if (!process.stdout.write(text)) await once(process.stdout, "drain");
};

/** All that the process keeps in memory, as a .heapsnapshot. */
async function snapshotHeap(inspector: RemoteInspector): Promise<void> {
  let written = Promise.resolve();
  inspector.on("HeapProfiler.addHeapSnapshotChunk", ({ chunk }) => {
    written = written.then(() => write(String(chunk)));
  });
  await inspector.send("HeapProfiler.enable");
  await inspector.send("HeapProfiler.takeHeapSnapshot", { reportProgress: false });
  await written;
}

const integerWithin =
  (least: number, most: number) =>
  (text: string): number => {
    const number = Number(text);
    if (Number.isInteger(number) && number >= least && number <= most) return number;
    throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
  };

type Options = { pid: number; port: number; seconds: number };

const program = new Command("debug").description(
  "What a running service does, written to standard output; run it in the container of the service.",
);

function add(
  name: string,
  description: string,
  read: (inspector: RemoteInspector, seconds: number) => Promise<void>,
): void {
  program
    .command(name)
    .description(description)
    .option("--seconds <n>", "how long to look", integerWithin(1, 60), 10)
    .option("--pid <pid>", "the process", integerWithin(1, 4_194_304), 1)
    .option("--port <port>", "where its inspector listens, on 127.0.0.1", integerWithin(1, 65_535), 9_229)
    .action(async ({ pid, port, seconds }: Options) => {
      await using inspector = await openInspector(pid, port);
      // The inspector is closed then, too.
      await Promise.race([read(inspector, seconds), once(process, "SIGINT"), once(process, "SIGTERM")]);
    });
}

add("cpu", "write a CPU profile (.cpuprofile)", async (inspector, seconds) =>
  write(await profileCpu(inspector, seconds)),
);
add("heap", "write a heap snapshot (.heapsnapshot): it holds prompts and keys, and stops the process", snapshotHeap);
add("loop", "show how late the event loop is, what it waits for, and its memory", async (inspector, seconds) =>
  write(await watchLoop(inspector, seconds)),
);

try {
  await program.parseAsync();
} catch (error) {
  process.stderr.write(`error: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
