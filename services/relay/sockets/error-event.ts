import { renderFailure, type Failure } from "../failures.ts";
import { dialects } from "../dialects/index.ts";

/** What a caller is told of a turn: an answer of HTTP, in one event. */
type ErrorEvent = { status: number; error: unknown; headers?: Record<string, string>; streamId: string | undefined };

/** The official error event of a socket. Codex reads `headers` of it as those of an answer over HTTP. */
export const errorEvent = ({ status, error, headers, streamId }: ErrorEvent): string =>
  JSON.stringify({
    type: "error",
    status,
    error,
    ...(headers && { headers }),
    ...(streamId !== undefined && { stream_id: streamId }),
  });

/** A failure in the words of the endpoint over HTTP. */
export function failureEvent(failure: Failure, rid: string, streamId: string | undefined): string {
  const dialect = dialects["openai-responses"];
  const rendered = renderFailure(failure, dialect.format);
  const { error } = JSON.parse(dialect.writeError(rendered)) as { error: unknown };
  const { retryAfterSeconds } = rendered;
  const headers = {
    "x-request-id": rid,
    ...(retryAfterSeconds !== undefined && { "retry-after": String(retryAfterSeconds) }),
  };
  return errorEvent({ status: rendered.status, error, headers, streamId });
}

const invalid = "invalid_request_error";

/** The provider's own words, by which its clients know to send the conversation in full. */
export const previousNotFound = (id: string) => ({
  type: invalid,
  code: "previous_response_not_found",
  message: `Previous response with id '${id}' not found.`,
  param: "previous_response_id",
});

/** The provider's own words, by which its clients know to connect again. */
export const tooOld = {
  type: invalid,
  code: "websocket_connection_limit_reached",
  message: "Responses websocket connection limit reached (60 minutes). Create a new websocket connection to continue.",
  param: null,
};

/** More turns wait than a socket may have. */
export const tooManyWaiting = {
  type: invalid,
  code: "rate_limit_exceeded",
  message: "Too many responses of this WebSocket connection are under way or wait; wait for one to end.",
  param: null,
};

/** No model here can be steered. */
export const notSteered = (input: unknown, previousId: string): string =>
  JSON.stringify({
    type: "response.steer.failed",
    sequence_number: 0,
    error: {
      type: invalid,
      code: "steering_not_supported",
      message: "Steering is not supported; send the input with the next response.create.",
    },
    steer: { input, previous_response_id: previousId },
  });

/** No response here waits for more: clients send what comes back with the next one (BetaResponseInjectFailedEvent). */
export const notInjected = (input: unknown, responseId: string): string =>
  JSON.stringify({
    type: "response.inject.failed",
    sequence_number: 0,
    error: {
      code: "response_not_found",
      message: "No response of this connection takes injected input; send it with the next response.create.",
    },
    input,
    response_id: responseId,
  });
