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

const withoutSecretTexts = (line: string): string => line.replaceAll(secretPattern, censored);

/** Where the lines of a logger go, and what each begins with behind its level and time. */
type Lines = { service: string; destination: DestinationStream };

const linesOf = new WeakMap<Logger, Lines>();

/**
 * JSON lines on standard output, one per event. Secrets and prompts are redacted by name at any depth; whatever looks
 * like an Authorization header or a key is redacted wherever it stands. (pino's own `redact` takes twenty times as
 * long as writing the line, which a line per call cannot afford.)
 */
export function createLog(service: string, level: string, destination: DestinationStream = pino.destination()): Logger {
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
    hooks: { streamWrite: withoutSecretTexts },
  };
  const log = pino(options, destination);
  linesOf.set(log, { service, destination });
  return log;
}

/** Fields of which each is of ours by its name and holds nothing within it. */
export type PlainFields = Readonly<Record<string, string | number | boolean | undefined>>;

let writtenAtMs = 0;
let writtenAt = "";

/** The time as pino writes it; many calls end in the same millisecond, and its text is a quarter of their line. */
function timeText(): string {
  const nowMs = Date.now();
  if (nowMs === writtenAtMs) return writtenAt;
  writtenAtMs = nowMs;
  return (writtenAt = new Date(nowMs).toISOString());
}

/**
 * The same line as `log.info(fields, message)`, for the one that every call writes: pino builds it of some hundred
 * pieces, ten kilobytes that the collector must take away. No name of `fields` may be one that is redacted.
 */
export function infoPlain(log: Logger, fields: PlainFields, message: string): void {
  const lines = linesOf.get(log);
  if (!lines) return log.info(fields, message);
  if (!log.isLevelEnabled("info")) return;
  const json = JSON.stringify({ ...fields, ["msg"]: message }).slice(1);
  const line = `{"level":"info","time":"${timeText()}","service":"${lines.service}",${json}\n`;
  lines.destination.write(withoutSecretTexts(line));
}

/** Lines that are gathered and written half a second later at the latest. */
export type BufferedLines = DestinationStream & { flushSync: () => void };

/** What pino's destination is in its mode of buffers, which its types leave out. */
type ByteSink = {
  write: (bytes: Buffer) => boolean;
  flushSync: () => void;
  on: (event: "drop" | "drain", listener: () => void) => void;
};

const maxGatheredBytes = 64 * 1024 * 1024;

/**
 * Standard output for a service that writes a line per call; buffered lines are written when the process exits. While
 * nobody reads them, lines beyond `maxBytes` are dropped, and a last line says how many.
 */
export function gatherLines(service: string, maxBytes = maxGatheredBytes): BufferedLines {
  // As buffers: of texts, all that is gathered would be copied for each further one to count its bytes.
  const options = {
    sync: false,
    minLength: 32_768,
    maxWrite: 65_536,
    maxLength: maxBytes,
    periodicFlush: 500,
    contentMode: "buffer",
  } as const;
  const sink = pino.destination(options) as unknown as ByteSink;
  let dropped = 0;
  sink.on("drop", () => (dropped += 1));
  sink.on("drain", () => {
    if (dropped === 0) return;
    const line = {
      level: "error",
      time: new Date().toISOString(),
      service,
      dropped,
      ["msg"]: "log lines dropped: stdout blocked",
    };
    dropped = 0;
    sink.write(Buffer.from(`${JSON.stringify(line)}\n`));
  });
  return {
    write: (line) => void sink.write(Buffer.from(line)),
    flushSync: () => sink.flushSync(),
  };
}
