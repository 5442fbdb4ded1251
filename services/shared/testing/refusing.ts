import type { DescService } from "@bufbuild/protobuf";
import { ServiceError } from "#shared/process/errors.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";

/** Handlers for every unary method of a service that all reject; a stub replaces those that it plays. */
export function refusing<S extends DescService>(
  service: S,
  thrown = (): Error => new ServiceError("internal", "not part of this stub"),
): UnaryHandlers<S> {
  const handlers = service.methods.map(({ localName }) => [localName, () => Promise.reject(thrown())] as const);
  return Object.fromEntries(handlers) as unknown as UnaryHandlers<S>;
}
