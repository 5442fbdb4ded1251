import type { DescMessage, DescService, MessageShape } from "@bufbuild/protobuf";
import { toJson } from "@bufbuild/protobuf";
import { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError, toServiceError } from "#shared/errors.ts";
import { connectGrpc, unaryClient, type UnaryClient } from "#shared/grpc.ts";
import type { Addresses } from "./config.ts";

const timeoutMs = 10_000;

/** The services that the commands ask. Failures are ServiceErrors whose words fit for the operator. */
export type Desk = Disposable & {
  authQuota: UnaryClient<typeof AuthQuotaService>;
  billing: UnaryClient<typeof BillingService>;
};

/** What a command has to say: a text for people, and the same as data for programs. */
export type Answer = {
  text: string;
  data: unknown;
  /** Said beside the answer, where a program that reads the answer does not see it. */
  hint?: string | undefined;
};

/** Runs the work of a command with connected services and shows its answer. */
export type Run = (work: (desk: Desk) => Promise<Answer>) => Promise<void>;

/** Opens channels; nothing is sent before the first call. */
export function openDesk({ authQuotaAddress, billingAddress }: Addresses): Desk {
  const channels = [connectGrpc(authQuotaAddress), connectGrpc(billingAddress)] as const;
  return {
    authQuota: telling(AuthQuotaService, unaryClient(AuthQuotaService, channels[0], timeoutMs), authQuotaAddress),
    billing: telling(BillingService, unaryClient(BillingService, channels[1], timeoutMs), billingAddress),
    [Symbol.dispose]: () => channels.forEach((channel) => channel.close()),
  };
}

/** The same client, but errors that say nothing of themselves tell which service they come from. */
function telling<S extends DescService>(service: S, client: UnaryClient<S>, address: string): UnaryClient<S> {
  const calls = Object.entries(client) as [string, (request: object) => Promise<object>][];
  const explain = (thrown: unknown): never => {
    const error = toServiceError(thrown);
    const name = `${service.typeName} at ${address}`;
    if (/No connection established|Deadline exceeded/.test(error.message)) {
      throw new ServiceError("unavailable", `${name} does not answer; is it running?`);
    }
    if (error.code === "unavailable") throw new ServiceError(error.code, `${name} is unavailable: ${error.message}`);
    if (error.code === "internal") throw new ServiceError(error.code, `${name} failed: ${error.message}; see its log`);
    throw error;
  };
  const told = calls.map(([name, call]) => [name, (request: object) => call(request).catch(explain)] as const);
  return Object.fromEntries(told) as unknown as UnaryClient<S>;
}

/** A message as data: camelCase names, int64 as decimal strings, times in ISO form, enums by name, zeros included. */
export function asData<D extends DescMessage>(schema: D, message: MessageShape<D>): Record<string, unknown> {
  return toJson(schema, message, { alwaysEmitImplicit: true }) as Record<string, unknown>;
}
