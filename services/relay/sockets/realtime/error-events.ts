import { dialects } from "../../dialects/index.ts";
import { renderFailure, type Failure } from "../../failures.ts";

const dialect = dialects["openai-realtime"];

export const otherWriter: Failure = {
  name: "field_invalid",
  detail: "field session.audio.input.transcription.model cannot change before the one in use has written all down",
};

export const tooOld = {
  type: "invalid_request_error",
  code: "session_expired",
  message: "Your session hit the maximum duration of 60 minutes.",
  param: null,
};

export const errorEvent = (rid: string, error: object): string =>
  JSON.stringify({ type: "error", event_id: `event_${rid}`, error });

/** A failure in the words of the endpoints over HTTP. */
export function failureEvent(failure: Failure, rid: string, eventId: string | undefined): string {
  const { error } = JSON.parse(dialect.writeError(renderFailure(failure, dialect.format))) as { error: object };
  return errorEvent(rid, { ...error, event_id: eventId ?? null });
}
