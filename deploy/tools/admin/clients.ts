import type { DescMessage, DescService, MessageShape } from "@bufbuild/protobuf";
import { toJson } from "@bufbuild/protobuf";
import { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { RelayService } from "#proto/relay/v1/relay_pb.ts";
import { ServiceError, toServiceError } from "#shared/process/errors.ts";
import type { GrpcCredentials } from "#shared/grpc/credentials.ts";
import { streamingClient, type StreamingClient } from "#shared/grpc/stream.ts";
import { connectGrpc, unaryClient, type UnaryClient } from "#shared/grpc/grpc.ts";
import type { Addresses } from "./config.ts";

const timeoutMs = 10_000;
const patientMs = 900_000;
// A stream may take any time; one that says nothing for this long has ended without a word.
const idleMs = 60_000;

/** The services that the commands ask. Failures are ServiceErrors whose words fit for the operator. */
export type Clients = Disposable & {
  authQuota: UnaryClient<typeof AuthQuotaService>;
  billing: UnaryClient<typeof BillingService>;
  streams: StreamingClient<typeof BillingService>;
  /** A relay, for the commands that need one. Throws `failed_precondition` where its address is not known. */
  relay: () => UnaryClient<typeof RelayService>;
  /** The same as `billing`, for what may take minutes. */
  patientBilling: UnaryClient<typeof BillingService>;
};

/** What a command has to say: a text for people, and the same as data for programs; an empty text says nothing. */
export type Answer = {
  text: string;
  data: unknown;
  /** Said beside the answer, where a program that reads the answer does not see it. */
  hint?: string | undefined;
  /** Whether what was found must not be: then the command ends with 1, though it has answered. */
  isWrong?: boolean;
  /** Whether something could not be checked: then the command ends with 2, unless something is wrong. */
  isUnchecked?: boolean;
};

/** Where a command writes: what was asked for, and what is said beside it. */
export type Output = { answer: (text: string) => void; aside: (text: string) => void };

/** Runs the work of a command with connected services and shows its answer. */
export type Run = (work: (clients: Clients) => Promise<Answer>) => Promise<void>;

/** Runs work that asks no service. */
export type RunAlone = (work: () => Promise<Answer>) => Promise<void>;

/** Opens channels; nothing is sent before the first call. The clients own the credentials. */
export function openClients(
  { authQuotaAddress, billingAddress }: Addresses,
  credentials: GrpcCredentials,
  relayAddress = "",
): Clients {
  const channels = [
    connectGrpc(authQuotaAddress, credentials, "auth-quota"),
    connectGrpc(billingAddress, credentials, "billing"),
  ] as const;
  const owned = new DisposableStack();
  const relay = (): UnaryClient<typeof RelayService> => {
    if (relayAddress === "")
      throw new ServiceError("failed_precondition", "set RELAY_ADDRESSES to host:port of the relays' gRPC");
    const channel = owned.adopt(connectGrpc(relayAddress, credentials, "relay"), (open) => open.close());
    // A check takes up to 10 s.
    return withServiceName(RelayService, unaryClient(RelayService, channel, 2 * timeoutMs), relayAddress);
  };
  return {
    relay,
    authQuota: withServiceName(
      AuthQuotaService,
      unaryClient(AuthQuotaService, channels[0], timeoutMs),
      authQuotaAddress,
    ),
    billing: withServiceName(BillingService, unaryClient(BillingService, channels[1], timeoutMs), billingAddress),
    streams: withStreamServiceName(streamingClient(BillingService, channels[1], idleMs), billingAddress),
    patientBilling: withServiceName(
      BillingService,
      unaryClient(BillingService, channels[1], patientMs),
      billingAddress,
    ),
    [Symbol.dispose]: () => {
      owned.dispose();
      channels.forEach((channel) => channel.close());
      credentials[Symbol.dispose]();
    },
  };
}

/** The same client, but errors that say nothing of themselves tell which service they come from. */
function withServiceName<S extends DescService>(service: S, client: UnaryClient<S>, address: string): UnaryClient<S> {
  const calls = Object.entries(client) as [string, (request: object) => Promise<object>][];
  const explain = (thrown: unknown): never => {
    throw explained(thrown, `${service.typeName} at ${address}`);
  };
  const told = calls.map(([name, call]) => [name, (request: object) => call(request).catch(explain)] as const);
  return Object.fromEntries(told) as unknown as UnaryClient<S>;
}

function withStreamServiceName(client: Clients["streams"], address: string): Clients["streams"] {
  const name = `${BillingService.typeName} at ${address}`;
  return {
    exportLines: (request) => explainAll(client.exportLines(request), name),
    replay: (request) => explainAll(client.replay(request), name),
    listCloseLines: (request) => explainAll(client.listCloseLines(request), name),
    restoreDay: (request) => explainAll(client.restoreDay(request), name),
  };
}

async function* explainAll<T>(responses: AsyncIterable<T>, name: string): AsyncGenerator<T> {
  try {
    yield* responses;
  } catch (thrown) {
    throw explained(thrown, name);
  }
}

function explained(thrown: unknown, name: string): ServiceError {
  const error = toServiceError(thrown);
  if (/No connection established|Deadline exceeded/.test(error.message)) {
    return new ServiceError("unavailable", `${name} does not answer; is it running?`);
  }
  if (error.code === "unavailable") return new ServiceError(error.code, `${name} is unavailable: ${error.message}`);
  if (error.code === "internal") {
    return new ServiceError(error.code, `${name} failed: ${error.message}; see its log`);
  }
  return error;
}

/** A message as data: camelCase names, int64 as decimal strings, times in ISO form, enums by name, zeros included. */
export function asData<D extends DescMessage>(schema: D, message: MessageShape<D>): Record<string, unknown> {
  return toJson(schema, message, { alwaysEmitImplicit: true }) as Record<string, unknown>;
}
