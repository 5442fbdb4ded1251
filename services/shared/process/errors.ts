import { status } from "@grpc/grpc-js";

/** What can go wrong inside a service, in one table: the gRPC status it travels as, whether asking again may help. */
export const errorTable = {
  invalid_argument: { grpcStatus: status.INVALID_ARGUMENT, isRetryable: false },
  not_found: { grpcStatus: status.NOT_FOUND, isRetryable: false },
  permission_denied: { grpcStatus: status.PERMISSION_DENIED, isRetryable: false },
  already_exists: { grpcStatus: status.ALREADY_EXISTS, isRetryable: false },
  failed_precondition: { grpcStatus: status.FAILED_PRECONDITION, isRetryable: false },
  unavailable: { grpcStatus: status.UNAVAILABLE, isRetryable: true },
  internal: { grpcStatus: status.INTERNAL, isRetryable: false },
} as const;

export type ErrorCode = keyof typeof errorTable;

/**
 * The one error that services raise on purpose. `message` may be shown to whoever called; what only operators
 * should see goes into `cause`.
 */
export class ServiceError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = "ServiceError";
    this.code = code;
  }
}

const codeByStatus = new Map<number, ErrorCode>(
  Object.entries(errorTable).map(([code, row]) => [row.grpcStatus, code as ErrorCode]),
);

/**
 * Turns anything thrown into a ServiceError: gRPC errors keep their code and words, everything else becomes
 * `internal` with a fixed sentence, so that the insides of a service never reach its callers.
 */
export function toServiceError(thrown: unknown): ServiceError {
  if (thrown instanceof ServiceError) return thrown;
  if (thrown instanceof Error && "code" in thrown && "details" in thrown) {
    const grpcStatus = Number(thrown.code);
    const code = grpcStatus === status.DEADLINE_EXCEEDED ? "unavailable" : (codeByStatus.get(grpcStatus) ?? "internal");
    return new ServiceError(code, String(thrown.details), thrown);
  }
  return new ServiceError("internal", "internal error", thrown);
}
