import type { DescService } from "@bufbuild/protobuf";
import * as grpc from "@grpc/grpc-js";
import { DebugService } from "#proto/debug/v1/debug_pb.ts";
import type { Logger } from "../process/log.ts";
import type { GrpcCredentials } from "./credentials.ts";
import { identitiesOf, type Identity } from "./identity.ts";

/** Who may call each method of a service. */
export type Callers<S extends DescService> = Record<keyof S["method"] & string, readonly Identity[]>;

/** Who may look into a process: memory has every secret in it, so nobody but the operator. */
export const debugCallers: Callers<typeof DebugService> = { look: ["admin"] };

const refused = { code: grpc.status.PERMISSION_DENIED, details: "this identity may not call this method" };

/**
 * Refuses calls of those whom the table does not list for a method, before a message is read, and logs who called. The
 * debug service may be served beside.
 * Without TLS nobody is known, and everybody may call everything.
 */
export function allowCallers<S extends DescService>(
  service: S,
  callers: Callers<S>,
  { credentials, log }: { credentials: Pick<GrpcCredentials, "isMutual">; log: Logger },
): grpc.ServerInterceptor[] {
  return credentials.isMutual ? [checkCaller(service, callers, log)] : [];
}

const rowsOf = <S extends DescService>(service: S, callers: Callers<S>): [string, Set<Identity>][] =>
  service.methods.map(({ name, localName }) => [
    `/${service.typeName}/${name}`,
    new Set<Identity>(callers[localName as keyof Callers<S>]),
  ]);

function checkCaller<S extends DescService>(service: S, callers: Callers<S>, log: Logger): grpc.ServerInterceptor {
  const byPath = new Map([...rowsOf(service, callers), ...rowsOf(DebugService, debugCallers)]);
  return ({ path }, call) => {
    const allowed = byPath.get(path);
    const certificate = call.getAuthContext().sslPeerCertificate;
    const identities = certificate ? identitiesOf(certificate) : [];
    if (allowed && identities.some((identity) => allowed.has(identity))) return new grpc.ServerInterceptingCall(call);
    const listener = new grpc.ServerListenerBuilder().withOnReceiveMetadata(() => {
      const peer = { names: certificate?.subjectaltname, serial: certificate?.serialNumber, from: call.getPeer() };
      log.warn({ method: path, peer }, "gRPC call refused: its caller is not listed for the method");
      call.sendStatus(refused);
    });
    return new grpc.ServerInterceptingCall(call, { start: (next) => next(listener.build()) });
  };
}
