import { RefusalReason } from "#proto/video/v1/video_pb.ts";
import type { PollResult, ProviderAnswer, Submission } from "./provider.ts";
import { sentenceOf } from "./wording.ts";

/** A provider's error as its API writes it; undefined where it does not. */
export type ProviderError = {
  codes: (string | undefined)[];
  message: unknown;
  /** Seconds after which it may be tried again, where the body tells them. */
  retryAfterSeconds: number | undefined;
};

const reasons: Record<number, RefusalReason> = {
  401: RefusalReason.ACCOUNT,
  402: RefusalReason.ACCOUNT,
  403: RefusalReason.ACCOUNT,
  // A server or a gateway that gave up waiting may have handed the request on.
  408: RefusalReason.UNKNOWN,
  429: RefusalReason.RATE,
  499: RefusalReason.UNKNOWN,
  503: RefusalReason.UNAVAILABLE,
};

// By which providers tell that the trouble is our account with them, under 400 and 429 too: OpenAI's error codes, and
// the statuses and reasons of google.rpc.
const accountCodes = new Set([
  "account_deactivated",
  "billing_hard_limit_reached",
  "billing_not_active",
  "insufficient_quota",
  "invalid_api_key",
  "API_KEY_INVALID",
  "PERMISSION_DENIED",
  "UNAUTHENTICATED",
]);

/**
 * What an answer to a submission means that names no task. A clear no is what the provider says of the request (4xx),
 * of its own rate or its being unavailable; everything else may have begun a task.
 */
export function refusalOf(answer: ProviderAnswer, error: ProviderError): Submission {
  const { status } = answer;
  const isClientError = status >= 400 && status < 500;
  const usual = reasons[status] ?? (isClientError ? RefusalReason.REJECTED : RefusalReason.UNKNOWN);
  const isOfAccount = isClientError && error.codes.some((code) => code !== undefined && accountCodes.has(code));
  return {
    outcome: "refused",
    reason: isOfAccount ? RefusalReason.ACCOUNT : usual,
    retryAfterSeconds: waitOf(answer, error),
    cause: causeOf(answer, error),
  };
}

/**
 * Whether the provider itself says that it knows of no such task. A page of a gateway says only that the address is
 * wrong, which must not end tasks.
 */
export function isMissing({ status, body }: ProviderAnswer): boolean {
  return (status === 404 || status === 410) && typeof body === "object" && body !== null;
}

/** A poll that taught nothing of the task. */
export function unansweredBy(answer: ProviderAnswer, error: ProviderError): PollResult {
  return { state: "unanswered", cause: causeOf(answer, error), retryAfterSeconds: waitOf(answer, error) };
}

const waitOf = ({ retryAfterSeconds }: ProviderAnswer, error: ProviderError): number =>
  retryAfterSeconds ?? error.retryAfterSeconds ?? 0;

function causeOf({ status }: ProviderAnswer, { codes, message }: ProviderError): string {
  const told = [...codes, sentenceOf(message)].filter((word) => word !== undefined);
  return [`HTTP ${status}`, ...told].join(": ").slice(0, 600);
}
