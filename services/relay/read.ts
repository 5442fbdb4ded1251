import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Dialect, Envelope } from "./dialects/dialect.ts";
import { JsonScanError, readField, scanJson, type Scan } from "./dialects/json-scan.ts";
import { CallFailure } from "./failures.ts";

/** API spec, Limits: a larger body is refused with 400. */
export const maxBodyBytes = 128 * 1024 * 1024;

/** Bodies above this are read only after the key is known, so that strangers cannot fill the memory. */
const freeBodyBytes = 64 * 1024;

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

/**
 * Reads the whole body. `beforeLargeBody` is awaited once when the body turns out to exceed 64 KiB; what it throws is
 * thrown here. Throws `body_too_large` above 128 MB; gives undefined when the caller goes away. After a failure the
 * rest of the body is left to whoever answers.
 */
export async function readBody(
  request: IncomingMessage,
  beforeLargeBody: () => Promise<void>,
): Promise<Buffer | undefined> {
  const announced = Number(request.headers["content-length"] ?? 0);
  let isLarge = announced > freeBodyBytes;
  // First, because a wrong key is told before a wrong body.
  if (isLarge) await beforeLargeBody();
  if (announced > maxBodyBytes) throw new CallFailure({ name: "body_too_large" });
  // The caller may have gone while the key was checked; its "close" would not come again.
  if (request.destroyed) return undefined;
  const { promise, resolve, reject } = Promise.withResolvers<Buffer | undefined>();
  const chunks: Buffer[] = [];
  let bytes = 0;
  const onData = (chunk: Buffer): void => {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > maxBodyBytes) return reject(new CallFailure({ name: "body_too_large" }));
    if (bytes <= freeBodyBytes || isLarge) return;
    isLarge = true;
    request.pause();
    beforeLargeBody().then(() => request.resume(), reject);
  };
  const onEnd = (): void => resolve(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
  const onGone = (): void => resolve(undefined);
  request.on("data", onData).once("end", onEnd).once("close", onGone).once("error", onGone);
  try {
    return await promise;
  } finally {
    request.off("data", onData).off("end", onEnd).off("close", onGone);
  }
}

function requireFields(body: Buffer, scan: Scan, dialect: Dialect): void {
  for (const name of dialect.requiredFields) {
    const field = scan.fields.get(name);
    const isNull = field !== undefined && scan.text.startsWith("null", field.start);
    if (!field || isNull) throw new CallFailure({ name: "field_required", detail: name });
  }
  if (readField(body, scan, "model") === "") throw new CallFailure({ name: "field_required", detail: "model" });
}

/**
 * Reads what the relay must know of a request body. Throws `invalid_json`, `field_required` or `field_invalid`;
 * everything else in the body is the upstream's to judge.
 */
export function readEnvelope(body: Buffer, dialect: Dialect, headers: IncomingHttpHeaders): Envelope {
  try {
    const scan = scanJson(body);
    requireFields(body, scan, dialect);
    const model = readField(body, scan, "model");
    if (typeof model !== "string")
      throw new CallFailure({ name: "field_invalid", detail: "field model must be a string" });
    if (scan.text.charCodeAt(scan.fields.get("messages")?.start ?? 0) !== 91) {
      throw new CallFailure({ name: "field_invalid", detail: "field messages must be an array" });
    }
    if (dialect.name === "anthropic-messages" && readVersion(headers) === undefined) {
      throw new CallFailure({
        name: "field_invalid",
        detail: "header provider-version must be a date such as 2023-06-01",
      });
    }
    return dialect.readEnvelope(body, scan, model);
  } catch (error) {
    if (error instanceof JsonScanError) throw new CallFailure({ name: "invalid_json", cause: error });
    throw error;
  }
}
