import { styleText } from "node:util";

type Style = Parameters<typeof styleText>[0];
type Fields = Record<string, unknown>;

const levelStyles: Record<string, Style> = { fatal: "red", error: "red", warn: "yellow", debug: "dim", trace: "dim" };
const hiddenFields = new Set(["level", "time", "service", "msg", "pid", "hostname"]);
const sourceWidth = 10;

/** How lines of services are shown: for people, or as the JSON that the services wrote. */
export type LineFormat = (source: string, line: string) => string;

/** A line as JSON: as it came, or wrapped when it was none. */
export const formatJson: LineFormat = (source, line) =>
  readFields(line)
    ? line
    : JSON.stringify({ level: "info", time: new Date().toISOString(), service: source, ["msg"]: line });

/** A line for people: time, service, level when it is not info, message, fields. */
export const formatText: LineFormat = (source, line) => {
  const fields = readFields(line);
  if (!fields) return `${timeOf(undefined)} ${nameOf(source)} ${line}`;
  const level = typeof fields["level"] === "string" ? fields["level"] : "info";
  const style = levelStyles[level];
  const message = `${level === "info" ? "" : `${level.toUpperCase()} `}${textOf(fields["msg"] ?? "")}`;
  const shown = Object.entries(fields).filter(([name]) => !hiddenFields.has(name));
  const hasStack = level === "error" || level === "fatal";
  const rest = shown.map(([name, value]) => styled("dim", ` ${name}=`) + textOf(value, hasStack)).join("");
  return `${timeOf(fields["time"])} ${nameOf(source)} ${style ? styled(style, message) : message}${rest}`;
};

function readFields(line: string): Fields | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    return JSON.parse(line) as Fields;
  } catch {
    return undefined;
  }
}

function timeOf(time: unknown): string {
  const instant = typeof time === "string" || typeof time === "number" ? new Date(time) : new Date();
  const iso = Number.isNaN(instant.getTime()) ? new Date().toISOString() : instant.toISOString();
  return styled("dim", iso.slice(11, 23));
}

function nameOf(source: string): string {
  return styled("cyan", source.padEnd(sourceWidth));
}

// Errors show their stack on lines of its own, warnings only their words; everything else stays on the line.
function textOf(value: unknown, hasStack = false): string {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null || !("stack" in value)) return JSON.stringify(value) ?? "";
  if (hasStack) return `\n    ${String(value.stack).replaceAll("\n", "\n    ")}`;
  return String("message" in value ? value.message : value.stack);
}

function styled(style: Style, text: string): string {
  return styleText(style, text, { stream: process.stdout });
}
