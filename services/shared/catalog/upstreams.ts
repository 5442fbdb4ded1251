import { createHash, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { validateHeaderName, validateHeaderValue } from "node:http";
import { createSecureContext } from "node:tls";
import type { CatalogProblem } from "./document.ts";
import type { UpstreamSource } from "./upstream-schema.ts";

/** How TLS to an upstream differs from the usual, as node:tls takes it. */
export type UpstreamTls = { ca?: string; cert?: string; key?: string; servername?: string };

/** What becomes of an answer whose caller has left: the upstream is stopped, or the rest is read within limits. */
export type OnCallerGone = { action: "abort" } | { action: "drain"; timeoutMs: number; maxOutputTokens: number };

/** A provider's API, or what speaks like one, as a service reaches it. */
export type Upstream = {
  /** Another one after a change of any setting: what was learnt about an upstream holds for its id only. */
  id: string;
  name: string;
  baseUrl: URL;
  dialects: string[];
  credential: string;
  /** The operator's own headers: name, value, name, value. */
  headers: string[];
  /** With the credentials that it asks for. */
  proxy: URL | undefined;
  tls: UpstreamTls | undefined;
  connectTimeoutMs: number;
  firstByteTimeoutMs: number;
  idleTimeoutMs: number;
  totalTimeoutMs: number;
  /** Calls that may be under way at once from this process. */
  maxConcurrent: number;
  /** Whether it serves responses over a WebSocket too. */
  hasResponsesSocket: boolean;
  onCallerGone: OnCallerGone;
  /** 0: the circuit never opens. */
  openAfterFailures: number;
  coolsDown: boolean;
};

type Text = UpstreamSource["headers"][string];

/**
 * Reads what a catalog only names: secrets, and the files of tls. Throws an Error without a value when it is not there,
 * or gives undefined where that is no problem.
 */
export type ReadNamed = (source: { env: string } | { file: string }) => string | undefined;

/** Reads them as a running service needs them. */
export const readNamedFrom =
  (environment: NodeJS.ProcessEnv): ReadNamed =>
  (source) => {
    if ("env" in source) {
      const value = environment[source.env];
      if (!value) throw new Error(`the variable ${source.env} is not set`);
      return value;
    }
    const value = readFileSync(source.file, "utf8");
    if (value.trim() === "") throw new Error(`the file ${source.file} is empty`);
    return value;
  };

function readText(source: Text, readNamed: ReadNamed): string | undefined {
  if (typeof source === "string") return source;
  const value = readNamed(source);
  return "file" in source ? value?.trim() : value;
}

function readCredential(source: Text, readNamed: ReadNamed): string {
  const value = readText(source, readNamed) ?? "";
  validateHeaderValue("credential", value);
  return value;
}

// What the relay, a dialect or the connection itself sets.
const reservedHeaders = new Set([
  "accept",
  "accept-encoding",
  "anthropic-beta",
  "anthropic-version",
  "authorization",
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "expect",
  "host",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "user-agent",
  "x-api-key",
  "x-request-id",
]);

function readHeaders(source: UpstreamSource["headers"], readNamed: ReadNamed): string[] {
  const seen = new Set<string>();
  return Object.entries(source).flatMap(([name, text]) => {
    const lowerName = name.toLowerCase();
    validateHeaderName(name);
    if (reservedHeaders.has(lowerName) || lowerName.startsWith("proxy-"))
      throw new Error(`the header ${name} is the relay's own to set`);
    if (seen.has(lowerName)) throw new Error(`the header ${name} stands twice`);
    seen.add(lowerName);
    const value = readText(text, readNamed) ?? "";
    validateHeaderValue(name, value);
    return [name, value];
  });
}

function readProxy(source: UpstreamSource["proxy"], readNamed: ReadNamed): URL | undefined {
  const text = source === undefined ? undefined : readText(source, readNamed);
  if (text === undefined) return undefined;
  // Messages leave out the value, which may be a secret.
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol)) throw new Error("proxy must be an http or https URL");
  if (url.pathname !== "/" || url.search !== "" || url.hash !== "")
    throw new Error("proxy must be a URL without a path");
  if (typeof source === "string" && `${url.username}${url.password}` !== "")
    throw new Error("the credentials of a proxy belong in a variable or a file");
  try {
    decodeURIComponent(`${url.username}${url.password}`);
  } catch {
    throw new Error("the credentials of the proxy are not percent-encoded");
  }
  return url;
}

function readTls(source: UpstreamSource["tls"], readNamed: ReadNamed): UpstreamTls | undefined {
  if (!source) return undefined;
  if ((source.cert_file === undefined) !== (source.key_file === undefined))
    throw new Error("tls needs cert_file and key_file together");
  const named = { ca: source.ca_file, cert: source.cert_file, key: source.key_file };
  const tls: UpstreamTls = { ...(source.server_name !== undefined && { servername: source.server_name }) };
  for (const part of ["ca", "cert", "key"] as const) {
    const { [part]: file } = named;
    const text = file === undefined ? undefined : readNamed({ file });
    if (text !== undefined) tls[part] = text;
  }
  try {
    // A context takes an authority that is none without a word, and then trusts nobody.
    if (tls.ca !== undefined) void new X509Certificate(tls.ca);
    createSecureContext(tls);
  } catch {
    throw new Error("the certificates or the key of tls cannot be read as PEM, or do not belong together");
  }
  return tls;
}

function readBaseUrl({ base_url: text, tls }: UpstreamSource): URL {
  const url = new URL(text);
  if (`${url.username}${url.password}` !== "") throw new Error("base_url must be without a user and a password");
  if (tls && url.protocol !== "https:") throw new Error("tls needs a base_url with https");
  return url;
}

function readOnCallerGone(entry: UpstreamSource): OnCallerGone {
  const { on_caller_gone: action, drain_timeout_ms: timeoutMs, drain_max_output_tokens: maxOutputTokens } = entry;
  return action === "abort" ? { action } : { action, timeoutMs, maxOutputTokens };
}

function readResponsesSocket({ responses_websocket: hasSocket, dialects }: UpstreamSource): boolean {
  if (hasSocket && !dialects.includes("openai-responses"))
    throw new Error("responses_websocket needs the dialect openai-responses");
  return hasSocket;
}

function buildUpstream(name: string, entry: UpstreamSource, readNamed: ReadNamed): Upstream {
  const settings = {
    name,
    baseUrl: readBaseUrl(entry),
    dialects: entry.dialects,
    credential: readCredential(entry.credential, readNamed),
    headers: readHeaders(entry.headers, readNamed),
    proxy: readProxy(entry.proxy, readNamed),
    tls: readTls(entry.tls, readNamed),
    connectTimeoutMs: entry.connect_timeout_ms,
    firstByteTimeoutMs: entry.first_byte_timeout_ms,
    idleTimeoutMs: entry.idle_timeout_ms,
    totalTimeoutMs: entry.total_timeout_ms,
    maxConcurrent: entry.max_concurrent,
    hasResponsesSocket: readResponsesSocket(entry),
    onCallerGone: readOnCallerGone(entry),
    openAfterFailures: entry.open_after_failures,
    coolsDown: entry.cool_down,
  };
  // A hash, because the settings hold secrets and ids live longer than they should.
  return { id: createHash("sha256").update(JSON.stringify(settings)).digest("base64url"), ...settings };
}

/** Reads upstreams with their secrets and certificates; what is wrong joins the problems. */
export function buildUpstreams(
  sources: Record<string, UpstreamSource>,
  readNamed: ReadNamed,
  problems: CatalogProblem[],
): Map<string, Upstream> {
  const upstreams = new Map<string, Upstream>();
  for (const [name, entry] of Object.entries(sources)) {
    try {
      upstreams.set(name, buildUpstream(name, entry, readNamed));
    } catch (error) {
      problems.push({ path: ["upstreams", name], reason: error instanceof Error ? error.message : String(error) });
    }
  }
  return upstreams;
}
