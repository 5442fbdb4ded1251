import { pino, type DestinationStream, type Logger } from "pino";

export type { Logger };

// Whatever is logged by mistake under these names never shows its value.
const secretNames = [
  "authorization",
  "cookie",
  "secret",
  "password",
  "credential",
  "keyHash",
  "messages",
  "prompt",
  "input",
  "body",
];
const secretPaths = ["x-api-key", "set-cookie"].flatMap((name) => [`["${name}"]`, `*["${name}"]`, `*.*["${name}"]`]);

/** JSON lines on standard output, one per event, with secrets and prompts redacted at three levels of nesting. */
export function createLog(service: string, level: string, destination?: DestinationStream): Logger {
  const options = {
    level,
    base: { service },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: {
      paths: [...secretNames.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]), ...secretPaths],
      censor: "[redacted]",
    },
  };
  return destination ? pino(options, destination) : pino(options);
}
