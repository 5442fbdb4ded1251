import type { Command } from "commander";
import { DebugService, Sight } from "#proto/debug/v1/debug_pb.ts";
import { ServiceError, toServiceError } from "#shared/process/errors.ts";
import type { GrpcCredentials } from "#shared/grpc/credentials.ts";
import { connectGrpc } from "#shared/grpc/grpc.ts";
import { identities, type Identity } from "#shared/grpc/identity.ts";
import { streamingClient } from "#shared/grpc/stream.ts";
import { readCount } from "./arguments.ts";
import type { Answer, Output, RunAlone } from "./clients.ts";

type Options = { service: Identity; address: string; seconds: number };
type Asking = { credentials: () => GrpcCredentials; output: Output; runAlone: RunAlone };

const sights = { cpu: Sight.CPU_PROFILE, heap: Sight.HEAP_SNAPSHOT, loop: Sight.EVENT_LOOP } as const;
// Beyond what is looked at: a heap of gigabytes is not taken at once.
const patienceMs = 120_000;

const readSight = (word: string): keyof typeof sights => {
  if (Object.hasOwn(sights, word)) return word as keyof typeof sights;
  throw new ServiceError("invalid_argument", `${word} is none of ${Object.keys(sights).join(", ")}`);
};

const readService = (word: string): Identity => {
  const found = identities.find((identity) => identity === word);
  if (found) return found;
  throw new ServiceError("invalid_argument", `${word} is none of ${identities.join(", ")}`);
};

export function addDebugCommand(program: Command, asking: Asking): void {
  program
    .command("debug")
    .description("look into a running process, by the operator's certificate; writes a file to standard output")
    .argument("<sight>", "cpu: a .cpuprofile; heap: a .heapsnapshot, with prompts and secrets; loop: JSON", readSight)
    .requiredOption("--service <name>", "which service it is", readService)
    .requiredOption("--address <host:port>", "where its gRPC answers")
    .option("--seconds <n>", "how long to look, 1 to 60", readCount, 10)
    .action((sight: keyof typeof sights, options: Options) => asking.runAlone(() => look(sight, options, asking)));
}

async function look(
  sight: keyof typeof sights,
  { service, address, seconds }: Options,
  { credentials, output }: Asking,
): Promise<Answer> {
  using own = credentials();
  using channel = connectGrpc(address, own, service);
  const { look: ask } = streamingClient(DebugService, channel, seconds * 1_000 + patienceMs);
  const text = new TextDecoder();
  try {
    for await (const { part } of ask({ sight: sights[sight], seconds }))
      output.answer(text.decode(part, { stream: true }));
  } catch (thrown) {
    throw explained(thrown, `${service} at ${address}`);
  }
  return { text: "", data: undefined };
}

function explained(thrown: unknown, name: string): ServiceError {
  const error = toServiceError(thrown);
  if (/UNIMPLEMENTED|unknown method|does not implement/i.test(`${error.message} ${String(error.cause)}`))
    return new ServiceError("failed_precondition", `${name} does not serve this; start it with DEBUG_CALLS=on`);
  if (error.code === "unavailable") return new ServiceError(error.code, `${name} does not answer: ${error.message}`);
  return error;
}
