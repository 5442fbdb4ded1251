import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { SourcePatch } from "#shared/testing/patch-source.ts";
import type { ServiceName } from "../../tools/local/stack.ts";
import { fileNameOf } from "./fault-file.ts";

/** What must happen before a process passes a point that a sound system does not pass by itself. */
export type Provocation =
  /** Its relay is killed and started again. */
  | "relay-restarts"
  /** A relay is silent for longer than it may be. */
  | "relay-is-silent"
  /** What calls cost does not reach the stream. */
  | "stream-is-away"
  /** Redis has lost everything. */
  | "redis-is-emptied";

/** A place that a service's source marks with `faultPoint(name)`, where the service can be made to kill itself. */
export type FaultPoint = { name: string; service: ServiceName; provocation?: Provocation };

/** Every point of the failure matrix at which the death of one process leaves calls with half a story. */
export const faultPoints: readonly FaultPoint[] = [
  {
    name: "relay: reserve granted, upstream not asked",
    service: "relay",
  },
  {
    name: "relay: upstream accepted, nothing answered",
    service: "relay",
  },
  {
    name: "relay: mid-stream",
    service: "relay",
  },
  {
    name: "relay: record in the spool, nobody told",
    service: "relay",
  },
  {
    name: "relay: record published, settle not answered",
    service: "relay",
  },
  {
    name: "relay: call of a dead relay closed, nobody told",
    service: "relay",
    provocation: "relay-restarts",
  },
  {
    name: "relay: spool of a dead relay told, its end not",
    service: "relay",
    provocation: "relay-restarts",
  },
  {
    name: "relay: holds restored, charges not told again",
    service: "relay",
    provocation: "redis-is-emptied",
  },
  {
    name: "auth-quota: decided in Redis, not answered",
    service: "auth-quota",
  },
  {
    name: "auth-quota: within a sweep",
    service: "auth-quota",
    provocation: "relay-is-silent",
  },
  {
    name: "auth-quota: told what is booked, nothing of it taken over",
    service: "auth-quota",
  },
  {
    name: "auth-quota: generation established, not remembered",
    service: "auth-quota",
    provocation: "redis-is-emptied",
  },
  {
    name: "auth-quota: everything rebuilt, recovery lock not open",
    service: "auth-quota",
    provocation: "redis-is-emptied",
  },
  {
    name: "billing: batch not committed",
    service: "billing",
  },
  {
    name: "billing: batch committed, auth-quota not told",
    service: "billing",
  },
  {
    name: "billing: auth-quota told, batch not acknowledged",
    service: "billing",
  },
  {
    name: "billing: charge published again, not noted",
    service: "billing",
    provocation: "stream-is-away",
  },
];

/** Between the steps of an account's move to another shard, which no round of chaos has (see ../failover). */
export const moveFaultPoints: readonly FaultPoint[] = [
  { name: "auth-quota: an account has left, nobody has it", service: "auth-quota" },
  { name: "auth-quota: an account has arrived, PostgreSQL does not know", service: "auth-quota" },
];

/** Points for a driver to arm, one at a time. */
export type FaultFolder = {
  /** Variables with which a service looks at its points, and with which its sources are patched. */
  environmentOf: (patches?: readonly SourcePatch[]) => Record<string, string>;
  /** The next process that passes the point sends itself the signal there; SIGKILL when none is named. */
  arm: (point: FaultPoint, signal?: "SIGKILL" | "SIGSTOP") => Promise<void>;
  /** Whether nobody has passed it yet. */
  isArmed: (point: FaultPoint) => boolean;
  disarm: (point: FaultPoint) => Promise<void>;
};

/** Keeps the points that are armed as files of a folder, which the processes look at. */
export async function openFaultFolder(folder: string): Promise<FaultFolder> {
  await mkdir(folder, { recursive: true });
  const fileOf = ({ name }: FaultPoint): string => join(folder, fileNameOf(name));
  const hook = (path: string): string => `--import=${pathToFileURL(join(import.meta.dirname, path)).href}`;
  return {
    environmentOf: (patches = []) => ({
      NODE_OPTIONS: `${hook("../../../services/shared/testing/patch-source.ts")} ${hook("pass-fault-point.ts")}`,
      SOURCE_PATCHES: JSON.stringify(patches),
      FAULT_FOLDER: folder,
    }),
    arm: async (point, signal = "SIGKILL") => {
      // Whoever looks meanwhile must not find an empty file.
      await writeFile(`${fileOf(point)}.new`, signal);
      await rename(`${fileOf(point)}.new`, fileOf(point));
    },
    isArmed: (point) => existsSync(fileOf(point)),
    disarm: (point) => rm(fileOf(point), { force: true }),
  };
}
