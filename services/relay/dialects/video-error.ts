import type { ErrorWriter, Refusal } from "./dialect.ts";

/**
 * Errors of /v1/videos and below: the shape of Format A, with an `error.type` that follows the status (API spec,
 * Errors), as that of Format B does.
 */
export const videoErrors: ErrorWriter = {
  format: "A",
  writeError: ({ message, type, code, param = "" }: Refusal) =>
    JSON.stringify({ error: { message, type, param, code } }),
};
