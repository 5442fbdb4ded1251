import type { DescMessage, DescService, MessageShape } from "@bufbuild/protobuf";
import { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { serverStreamHandlers, type ServerStreamHandlers } from "#shared/grpc/stream.ts";
import { serveGrpc, unaryHandlers, type UnaryHandlers } from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";
import { asData } from "../clients.ts";
import { runCommand } from "../program.ts";

/**
 * What a stub answers per method: a message's fields, an Error to throw, or a function of the request; a method that
 * answers with a stream gives a list of messages, of which each may be an Error.
 */
type Answers = Record<string, object | Error | ((request: Record<string, unknown>) => object)>;

/** How a command ended, what it wrote, and what it asked of the services. */
export type CommandResult = { code: number; answer: string; aside: string; asked: [method: string, request: object][] };

const loopback = { host: "127.0.0.1", port: 0, drainMs: 100 };
const silent = createLog("stub", "silent");

function stub<S extends DescService>(service: S, answers: Answers, asked: CommandResult["asked"]): UnaryHandlers<S> {
  const handlers = service.methods.map((method) => {
    const handle = async (message: MessageShape<DescMessage>): Promise<object> => {
      const request = asData(method.input, message);
      asked.push([method.localName, request]);
      const answer = answers[method.localName] ?? {};
      if (answer instanceof Error) throw answer;
      return typeof answer === "function" ? answer(request) : answer;
    };
    return [method.localName, handle] as const;
  });
  return Object.fromEntries(handlers) as unknown as UnaryHandlers<S>;
}

function stubStreams(answers: Answers, asked: CommandResult["asked"]): ServerStreamHandlers<typeof BillingService> {
  const methods = BillingService.methods.filter(({ methodKind }) => methodKind === "server_streaming");
  const handlers = methods.map((method) => {
    const handle = async function* (message: MessageShape<DescMessage>): AsyncGenerator<object> {
      asked.push([method.localName, asData(method.input, message)]);
      for (const answer of (answers[method.localName] ?? []) as (object | Error)[]) {
        if (answer instanceof Error) throw answer;
        yield answer;
      }
    };
    return [method.localName, handle] as const;
  });
  return Object.fromEntries(handlers) as unknown as ServerStreamHandlers<typeof BillingService>;
}

/** Runs one command against gRPC servers that answer as told. */
export async function runAgainst(answers: Answers, ...words: string[]): Promise<CommandResult> {
  const ended: CommandResult = { code: -1, answer: "", aside: "", asked: [] };
  const authQuota = unaryHandlers(AuthQuotaService, stub(AuthQuotaService, answers, ended.asked), silent);
  const billing = {
    ...unaryHandlers(BillingService, stub(BillingService, answers, ended.asked), silent),
    ...serverStreamHandlers(BillingService, stubStreams(answers, ended.asked), silent),
  };
  await using keys = await serveGrpc([[AuthQuotaService, authQuota]], loopback);
  await using money = await serveGrpc([[BillingService, billing]], loopback);
  ended.code = await runCommand(words, {
    environment: {
      ALLOW_PLAIN_GRPC: "always",
      AUTH_QUOTA_ADDRESS: `127.0.0.1:${keys.port}`,
      BILLING_ADDRESS: `127.0.0.1:${money.port}`,
    },
    addressesFile: "none",
    output: { answer: (text) => void (ended.answer += text), aside: (text) => void (ended.aside += text) },
  });
  return ended;
}
