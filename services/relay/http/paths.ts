import type { ErrorWriter } from "../dialects/dialect.ts";
import { dialects } from "../dialects/index.ts";
import { videoErrors } from "../dialects/video-error.ts";
import type { Failure } from "../failures.ts";

/** Longer targets are refused; the longest path of the API is a model's, with at most 200 characters of it. */
export const maxTargetLength = 8_192;

const origin = /^https?:\/\/[^/?#]*/i;

/** The path of a request target: without its query and, in the absolute form that proxies send, its origin. */
export function pathOf(target: string): string {
  const path = target.replace(origin, "").split(/[?#]/, 1)[0] ?? "";
  return path === "" ? "/" : path;
}

const isUnder = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`);

/** Whether a path is one of the API, known or not. */
export const isOfApi = (path: string): boolean => isUnder(path, "/v1");

/**
 * API spec, Errors: the shape of an error follows the endpoint, Format B for /v1/messages and what is below it; on
 * /v1/videos the type follows the status.
 */
export function errorsOfPath(path: string): ErrorWriter {
  if (isUnder(path, "/v1/videos")) return videoErrors;
  return isUnder(path, "/v1/messages") ? dialects["anthropic-messages"] : dialects["openai-chat"];
}

/**
 * How a path is answered that no endpoint serves, by the API spec's Authentication rules 4 and 5 and its table "Not
 * supported or not checked"; undefined for a path without /v1, which gets the website's page.
 */
export function failureOfPath(method: string, path: string): Failure | undefined {
  // Callers of the third provider's format are told so wherever they look first.
  if (isUnder(path, "/v1beta/models")) return { name: "key_invalid" };
  if (!isOfApi(path)) return undefined;
  if (method === "GET" && path === "/v1/files") return { name: "malformed_request", cause: "files are not supported" };
  if (isUnder(path, `${realtimePath}/calls`)) {
    return { name: "invalid_url", detail: `${method} ${path}: WebRTC and SIP are not supported, open a WebSocket` };
  }
  return { name: "invalid_url", detail: `${method} ${path}` };
}

/** The website's page for a path without /v1. */
export const notFoundPage =
  "<!doctype html><html lang=en><title>Not found</title><h1>Not found</h1><p>The API is under /v1.</p></html>\n";

/** Where responses are asked for, over HTTP and over a WebSocket. */
export const socketPath = "/v1/responses";

/** Where sessions are opened, over a WebSocket only, and what is below it. */
export const realtimePath = "/v1/realtime";
export const clientSecretsPath = `${realtimePath}/client_secrets`;

/** Whether there is a WebSocket at a path. */
export const isSocketPath = (path: string): boolean => path === socketPath || path === realtimePath;

/** The path of videos, as routes and records name it. */
export const videosPath = "/v1/videos";
