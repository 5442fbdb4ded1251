import { Session } from "node:inspector/promises";
import { getHeapSnapshot } from "node:v8";
import type { UntypedServiceImplementation } from "@grpc/grpc-js";
import { DebugService, type LookRequest, Sight } from "#proto/debug/v1/debug_pb.ts";
import { ServiceError } from "../process/errors.ts";
import { type Inspector, profileCpu, watchLoop } from "../process/inspector.ts";
import type { Logger } from "../process/log.ts";
import type { GrpcCredentials } from "./credentials.ts";
import { serverStreamHandlers } from "./stream.ts";

const names = {
  [Sight.CPU_PROFILE]: "CPU profile",
  [Sight.HEAP_SNAPSHOT]: "heap snapshot",
  [Sight.EVENT_LOOP]: "event loop",
};
const maxSeconds = 60;
const partBytes = 64 * 1024;

type Debugging = { isOn: boolean; credentials: Pick<GrpcCredentials, "isMutual">; log: Logger };

/** The debug service of this process, to be served beside others; none when it is off or nobody shows a certificate. */
export function debugServices({
  isOn,
  credentials,
  log,
}: Debugging): [typeof DebugService, UntypedServiceImplementation][] {
  if (!isOn || !credentials.isMutual) return [];
  return [[DebugService, serverStreamHandlers(DebugService, { look: lookInto(log) }, log)]];
}

const isKnown = (sight: Sight): sight is keyof typeof names => Object.hasOwn(names, sight);

function lookInto(log: Logger) {
  let isLooking = false;
  return async function* look({ sight, seconds }: LookRequest, gone: AbortSignal): AsyncGenerator<{ part: Buffer }> {
    if (!isKnown(sight)) throw new ServiceError("invalid_argument", "what is to be looked at is not told");
    if (seconds < 1 || seconds > maxSeconds)
      throw new ServiceError("invalid_argument", `seconds must be 1 to ${maxSeconds}`);
    if (isLooking) throw new ServiceError("failed_precondition", "another look is under way");
    isLooking = true;
    log.warn({ sight: names[sight], seconds }, "an operator looks into this process");
    try {
      const pieces = sight === Sight.HEAP_SNAPSHOT ? getHeapSnapshot() : seen(sight, seconds, gone);
      for await (const piece of pieces as AsyncIterable<Buffer>)
        for (let from = 0; from < piece.length; from += partBytes)
          yield { part: piece.subarray(from, from + partBytes) };
    } finally {
      isLooking = false;
    }
  };
}

async function* seen(sight: Sight, seconds: number, gone: AbortSignal): AsyncGenerator<Buffer> {
  const session = new Session();
  session.connect();
  // Its types list each method; what is sent here is of both kinds of connection.
  const post = session.post.bind(session) as unknown as Inspector["send"];
  try {
    const inspector = { send: post };
    const text =
      sight === Sight.CPU_PROFILE ? await profileCpu(inspector, seconds, gone) : await watchLoop(inspector, seconds);
    yield Buffer.from(text);
  } finally {
    session.disconnect();
  }
}
