import { startProcess, type ChildProcess } from "#shared/testing/child-process.ts";

export type Started = AsyncDisposable & {
  port: number;
  pid: number;
  /** The last lines that it wrote. */
  lastLines: () => string[];
};

/** What to start, and how its port is told in one of the JSON lines that it writes. */
export type AnnouncedPlan = {
  command: string;
  args: string[];
  /** Replaces the environment of this process. */
  environment?: NodeJS.ProcessEnv;
  /** The field of the line that has the port. */
  portField?: string;
};

/** Starts a process and waits until it tells its port. Throws with its last lines when it ends first. */
export async function startAnnounced(plan: AnnouncedPlan): Promise<Started> {
  const { command, args, environment, portField = "port" } = plan;
  const announced = Promise.withResolvers<number>();
  let isAnnounced = false;
  const onLine = (line: string): void => {
    if (isAnnounced) return;
    const port = portIn(line, portField);
    if (port === undefined) return;
    isAnnounced = true;
    announced.resolve(port);
  };
  const child: ChildProcess = await startProcess({
    command,
    args,
    ...(environment && { environment }),
    orphanSignal: "SIGTERM",
    onLine,
  });
  const failed = child.ended.then((outcome) => {
    throw new Error(`${args.at(-1)} ${outcome}:\n${child.lastLines().join("\n")}`);
  });
  const port = await Promise.race([announced.promise, failed]);
  failed.catch(() => undefined);
  return { port, pid: child.pid, lastLines: child.lastLines, [Symbol.asyncDispose]: () => child.end("SIGTERM") };
}

function portIn(line: string, field: string): number | undefined {
  if (!line.startsWith("{")) return undefined;
  const port = (JSON.parse(line) as Record<string, unknown>)[field];
  return typeof port === "number" ? port : undefined;
}
