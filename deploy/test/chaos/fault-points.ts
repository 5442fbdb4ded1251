import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { SourcePatch } from "#shared/testing/patch-source.ts";
import type { ServiceName } from "../../tools/local/stack.ts";

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

/** A place in a service's source where it can be made to kill itself: before or behind the statement `at`. */
export type FaultPoint = {
  name: string;
  service: ServiceName;
  /** The end of the source file's path. */
  file: string;
  at: string;
  side: "before" | "behind";
  provocation?: Provocation;
};

/** Every point of the failure matrix at which the death of one process leaves calls with half a story. */
export const faultPoints: readonly FaultPoint[] = [
  {
    name: "relay: reserve granted, upstream not asked",
    service: "relay",
    file: "services/relay/call.ts",
    at: "live.add(call);",
    side: "behind",
  },
  {
    name: "relay: upstream accepted, nothing answered",
    service: "relay",
    file: "services/relay/upstream/reach.ts",
    at: "call.firstByteAtMs = Date.now();",
    side: "before",
  },
  {
    name: "relay: mid-stream",
    service: "relay",
    file: "services/relay/stream/pump.ts",
    at: "else onPiece();",
    side: "behind",
  },
  {
    name: "relay: record in the spool, nobody told",
    service: "relay",
    file: "services/relay/charge/settle.ts",
    at: "settling.spool.append(call.rid, bytes);",
    side: "behind",
  },
  {
    name: "relay: record published, settle not answered",
    service: "relay",
    file: "services/relay/charge/publish.ts",
    at: "await stream.publish(usageSubject, payload, { msgID: id, headers, timeout: ackTimeoutMs });",
    side: "behind",
  },
  {
    name: "relay: call of a dead relay closed, nobody told",
    service: "relay",
    file: "services/relay/charge/settle.ts",
    at: "  spool.append(left.rid, bytes);",
    side: "behind",
    provocation: "relay-restarts",
  },
  {
    name: "relay: spool of a dead relay told, its end not",
    service: "relay",
    file: "services/relay/charge/settle.ts",
    at: 'await quota.tell({ operation: { case: "endSession", value: { relaySession } } });',
    side: "before",
    provocation: "relay-restarts",
  },
  {
    name: "relay: holds restored, charges not told again",
    service: "relay",
    file: "services/relay/charge/restore.ts",
    at: "await tellAgain(settling);",
    side: "before",
    provocation: "redis-is-emptied",
  },
  {
    name: "auth-quota: decided in Redis, not answered",
    service: "auth-quota",
    file: "services/auth-quota/session/decide.ts",
    at: "metrics.redis((performance.now() - startedAt) / 1_000, true);",
    side: "behind",
  },
  {
    name: "auth-quota: within a sweep",
    service: "auth-quota",
    file: "services/auth-quota/hot/sweep.ts",
    at: "metrics.expired(answer.number);",
    side: "behind",
    provocation: "relay-is-silent",
  },
  {
    name: "auth-quota: told what is booked, nothing of it taken over",
    service: "auth-quota",
    file: "services/auth-quota/handlers/post.ts",
    at: "for (const chunk of chunks([...sums, ...posts])) {",
    side: "before",
  },
  {
    name: "auth-quota: generation established, not remembered",
    service: "auth-quota",
    file: "services/auth-quota/hot/rebuild.ts",
    at: "await writeGeneration(deps.database, lock.generation);",
    side: "before",
    provocation: "redis-is-emptied",
  },
  {
    name: "auth-quota: everything rebuilt, recovery lock not open",
    service: "auth-quota",
    file: "services/auth-quota/hot/rebuild.ts",
    at: 'await hot.apply("", [["open-gate", generation]]);',
    side: "before",
    provocation: "redis-is-emptied",
  },
  {
    name: "billing: batch not committed",
    service: "billing",
    file: "services/billing/store/post.ts",
    at: "const accounts = await chargeAccounts(db, accountIds, plan.chargedByAccount);",
    side: "behind",
  },
  {
    name: "billing: batch committed, auth-quota not told",
    service: "billing",
    file: "services/billing/intake/consume.ts",
    at: "const pushing = pushAndAcknowledge(",
    side: "before",
  },
  {
    name: "billing: auth-quota told, batch not acknowledged",
    service: "billing",
    file: "services/billing/intake/consume.ts",
    at: "await pusher.push(posting);",
    side: "behind",
  },
  {
    name: "billing: charge published again, not noted",
    service: "billing",
    file: "services/billing/intake/outbox.ts",
    at: "backoff.tried(part);",
    side: "before",
    provocation: "stream-is-away",
  },
];

/** The change of the source that makes a process look, each time it passes the point, whether it is to die there. */
export function patchOf({ name, file, at, side }: FaultPoint): SourcePatch {
  const look = `globalThis.passFaultPoint(${JSON.stringify(fileNameOf(name))});`;
  return { file, find: at, replace: side === "before" ? `${look} ${at}` : `${at} ${look}` };
}

/** Points for a driver to arm, one at a time. */
export type FaultFolder = {
  /** Variables with which a service has its points, and more changes of its sources. */
  environmentOf: (service: ServiceName, more?: readonly SourcePatch[]) => Record<string, string>;
  /** The next process that passes the point sends itself the signal there; SIGKILL when none is named. */
  arm: (point: FaultPoint, signal?: "SIGKILL" | "SIGSTOP") => Promise<void>;
  /** Whether nobody has passed it yet. */
  isArmed: (point: FaultPoint) => boolean;
  disarm: (point: FaultPoint) => Promise<void>;
};

/** Keeps those of the points that are armed as files of a folder, which the processes look at. */
export async function openFaultFolder(folder: string, points: readonly FaultPoint[]): Promise<FaultFolder> {
  await mkdir(folder, { recursive: true });
  const fileOf = ({ name }: FaultPoint): string => join(folder, fileNameOf(name));
  const hook = (path: string): string => `--import=${pathToFileURL(join(import.meta.dirname, path)).href}`;
  return {
    environmentOf: (service, more = []) => ({
      NODE_OPTIONS: `${hook("../../../services/shared/testing/patch-source.ts")} ${hook("pass-fault-point.ts")}`,
      SOURCE_PATCHES: JSON.stringify([...points.filter((point) => point.service === service).map(patchOf), ...more]),
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

function fileNameOf(name: string): string {
  return name.replaceAll(/[^a-z]+/g, "-");
}
