import { pino, type DestinationStream, type Logger } from "pino";

export type { Logger };

const censored = "[redacted]";

/** Whatever is logged under these names, in any case and at any depth, never shows its value. */
const secretNames = new Set([
  "authorization",
  "proxy-authorization",
  "x-api-key",
  "x-goog-api-key",
  "api-key",
  "apikey",
  "cookie",
  "set-cookie",
  "secret",
  "password",
  "credential",
  "keyhash",
  "messages",
  "prompt",
  "input",
  "body",
]);

// Names do not catch a list of headers or a text with a secret in it; so each line is searched as well.
const secretPattern = /\b(?:(?:Bearer|Basic)\s+[\w.~+/=-]+|sk-[\w-]{16,})/gi;

const maxDepth = 6;

/** A copy without secrets; what knows how to write itself (dates, buffers) stays as it is. */
function withoutSecrets(value: unknown, depth: number): unknown {
  if (typeof value !== "object" || value === null || "toJSON" in value) return value;
  if (depth > maxDepth) return "[too deep]";
  if (value instanceof Error) return withoutSecrets({ ...pino.stdSerializers.err(value) }, depth + 1);
  if (Array.isArray(value)) return value.map((item) => withoutSecrets(item, depth + 1));
  const copy: Record<string, unknown> = {};
  for (const [name, inner] of Object.entries(value)) {
    copy[name] = secretNames.has(name.toLowerCase()) ? censored : withoutSecrets(inner, depth + 1);
  }
  return copy;
}

const redact = (given: Record<string, unknown>): Record<string, unknown> =>
  withoutSecrets(given, 0) as Record<string, unknown>;

/**
 * JSON lines on standard output, one per event. Secrets and prompts are redacted by name at any depth; whatever looks
 * like an Authorization header or a key is redacted wherever it stands. (pino's own `redact` takes twenty times as
 * long as writing the line, which a line per call cannot afford.)
 */
export function createLog(service: string, level: string, destination?: DestinationStream): Logger {
  const options = {
    level,
    base: { service },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }), log: redact },
    // Bindings of a child pass through serializers only.
    serializers: {
      ...Object.fromEntries([...secretNames].map((name) => [name, () => censored])),
      err: (thrown: unknown) => withoutSecrets(thrown, 0),
    },
    hooks: { streamWrite: (line: string) => line.replaceAll(secretPattern, censored) },
  };
  return destination ? pino(options, destination) : pino(options);
}
