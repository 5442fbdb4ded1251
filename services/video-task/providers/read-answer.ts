import type { Upstream } from "#shared/catalog/upstreams.ts";

const maxAnswerBytes = 1_048_576;
const maxWaitSeconds = 86_400;
const hidden = "[hidden]";

// Shorter values are words like "true" or "beta", not secrets.
const minSecretLength = 6;

// What providers name tasks, files and states by, which no caller sees.
const nameFields = new Set(["id", "name", "uri", "status"]);

/** Gathers an answer; `take` says false when there is more than 1 MiB, `read` gives the JSON, undefined for none. */
export type AnswerReader = { take: (chunk: Buffer) => boolean; read: () => unknown };

/** Reads answers of an upstream, without what gives access to it. */
export function createReader(upstream: Upstream): AnswerReader {
  const chunks: Buffer[] = [];
  let bytes = 0;
  return {
    take: (chunk) => {
      bytes += chunk.length;
      if (bytes <= maxAnswerBytes) chunks.push(chunk);
      return bytes <= maxAnswerBytes;
    },
    read: () => {
      if (bytes > maxAnswerBytes) return undefined;
      const secrets = secretsOf(upstream);
      const clean = (name: string, value: unknown): unknown =>
        typeof value === "string" && !nameFields.has(name) ? without(secrets, value) : value;
      try {
        return JSON.parse(Buffer.concat(chunks).toString(), clean) as unknown;
      } catch {
        return undefined;
      }
    },
  };
}

function secretsOf({ credential, headers, proxy }: Upstream): string[] {
  const userinfo = proxy ? [proxy.username, proxy.password] : [];
  const values = headers.filter((_, index) => index % 2 === 1);
  const others = [...values, ...userinfo, ...userinfo.map(decodeURIComponent)];
  const secrets = [credential, ...others.filter(({ length }) => length >= minSecretLength)];
  // The longest first, because one may stand within another.
  return secrets.toSorted((one, other) => other.length - one.length);
}

const without = (secrets: string[], text: string): string =>
  secrets.reduce((rest, secret) => rest.replaceAll(secret, hidden), text);

/** Seconds of a Retry-After, which has seconds or a date (RFC 9110, 10.2.3), at most a day; undefined for neither. */
export function retryAfterOf(header: string | string[] | undefined): number | undefined {
  const [text] = Array.isArray(header) ? header : [header];
  if (text === undefined || text.trim() === "") return undefined;
  const isCount = /^\s*\d{1,15}\s*$/.test(text);
  const seconds = isCount ? Number(text) : Math.ceil((Date.parse(text) - Date.now()) / 1_000);
  return Number.isNaN(seconds) ? undefined : Math.min(Math.max(seconds, 0), maxWaitSeconds);
}
