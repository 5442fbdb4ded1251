import type { IncomingHttpHeaders } from "node:http";
import { RequestError, type Dialect, type Envelope } from "../dialects/dialect.ts";
import { FormError, readFormBody } from "../dialects/json/form-body.ts";
import { JsonScanError } from "../dialects/json/scan.ts";
import { readJsonBody, type RequestBody } from "../dialects/json/request-body.ts";
import { refuseLookalikes } from "../dialects/read-settings.ts";
import { findStateIds } from "../dialects/state-ids.ts";
import { CallFailure } from "../failures.ts";

const bearer = /^Bearer +(\S+)$/i;

/**
 * The key that a call presents: `Authorization: Bearer`, or `x-api-key` where the endpoint is of Format B (API spec,
 * Authentication rule 1). Throws `key_invalid` when there is none.
 */
export function readKey(headers: IncomingHttpHeaders, acceptsApiKeyHeader: boolean): string {
  const apiKey = headers["x-api-key"];
  if (acceptsApiKeyHeader && typeof apiKey === "string" && apiKey !== "") return apiKey;
  const key = bearer.exec(headers.authorization ?? "")?.[1];
  if (key === undefined) throw new CallFailure({ name: "key_invalid" });
  return key;
}

const versionPattern = /^\d{4}-\d{2}-\d{2}$/;

/** The Format B version header; `anthropic-version` is what real clients send instead of `provider-version`. */
export function readVersion(headers: IncomingHttpHeaders): string | undefined {
  const version = headers["provider-version"] ?? headers["anthropic-version"];
  return typeof version === "string" && versionPattern.test(version) ? version : undefined;
}

/** The headers by which `readEnvelope` reads a body. */
export function readingHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const version = readVersion(headers);
  return {
    "content-type": headers["content-type"] ?? "",
    ...(version !== undefined && { "provider-version": version }),
  };
}

function requireFields(body: RequestBody, dialect: Dialect): void {
  for (const name of dialect.requiredFields) {
    if (!body.has(name)) throw new CallFailure({ name: "field_required", detail: name });
  }
}

/** Whether a request is a form; where both are taken, its content type says so. */
function isFormOf({ takesForm, takesJson }: Dialect, headers: IncomingHttpHeaders): boolean {
  return takesForm && !(takesJson && /^application\/json\b/i.test(headers["content-type"] ?? ""));
}

/** The envelope with the ids of a provider's state that its body names. */
function withStateIds(envelope: Envelope, { statePlaces }: Dialect): Envelope {
  const stateIds = statePlaces && findStateIds(envelope.body, statePlaces);
  return stateIds ? { ...envelope, stateIds } : envelope;
}

/** More than any name in a catalog has; a longer one is repeated to nobody. */
export const maxModelCharacters = 1_024;

type EnvelopeOptions = {
  /** May put into an envelope what its body only refers to. */
  complete?: (envelope: Envelope) => Envelope;
  /** More JSON values than that are a ManyValuesError. */
  mostValues?: number | undefined;
};

/**
 * Reads what the relay must know of a request body. Throws `invalid_json`, `field_required` or `field_invalid`;
 * everything else in the body is the upstream's to judge.
 */
export function readEnvelope(
  bytes: Buffer,
  dialect: Dialect,
  headers: IncomingHttpHeaders,
  { complete = (envelope) => envelope, mostValues }: EnvelopeOptions = {},
): Envelope {
  try {
    const body = isFormOf(dialect, headers)
      ? readFormBody(bytes, headers["content-type"] ?? "")
      : readJsonBody(bytes, dialect.mediaPlaces, mostValues);
    refuseLookalikes(body);
    requireFields(body, dialect);
    const notArray = dialect.arrayFields.find((name) => !body.isArray(name));
    if (notArray !== undefined) throw new RequestError(`field ${notArray} must be an array`);
    const named = body.has("model") ? body.readText("model", maxModelCharacters) : undefined;
    const model = named ?? dialect.defaultModel ?? "";
    if (model === "") throw new CallFailure({ name: "field_required", detail: "model" });
    if (dialect.format === "B" && readVersion(headers) === undefined) {
      throw new RequestError("header provider-version must be a date such as 2023-06-01");
    }
    return withStateIds(complete(dialect.readEnvelope(body, model)), dialect);
  } catch (error) {
    throw refusalOfBody(error);
  }
}

/** What a caller is told of a body that cannot be read; any other error as it is. */
export function refusalOfBody(error: unknown): unknown {
  if (error instanceof JsonScanError) return new CallFailure({ name: "invalid_json", cause: error });
  if (error instanceof FormError) {
    return new CallFailure({ name: "field_invalid", detail: "the body must be a multipart form", cause: error });
  }
  if (!(error instanceof RequestError)) return error;
  const { message: detail, errorCode } = error;
  const details = errorCode === undefined ? undefined : { error_code: errorCode };
  return new CallFailure({ name: "field_invalid", detail, details });
}
