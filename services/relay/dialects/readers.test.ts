import assert from "node:assert/strict";
import { test } from "node:test";
import { RequestError, type Dialect, type DialectName } from "./dialect.ts";
import { readFormBody } from "./json/form-body.ts";
import { dialects } from "./index.ts";
import { maxScalarBytes, readJsonBody } from "./json/request-body.ts";

const large = 200_000;
const values = {
  "a list": `[${"[],".repeat(large / 3)}[]]`,
  "an object": `{"a":${"1".repeat(large)}}`,
  "a long text": `"${"x".repeat(large)}"`,
  "a long number": "1".repeat(large),
};

/** Fields of one value that a dialect reads. */
const scalarFields: Partial<Record<DialectName, string[]>> = {
  "openai-chat": ["stream", "max_completion_tokens", "max_tokens", "n", "service_tier"],
  "openai-responses": ["background", "stream", "max_output_tokens", "service_tier"],
  "anthropic-messages": ["max_tokens", "stream"],
  "openai-compact": ["background", "stream", "max_output_tokens", "service_tier"],
  "openai-completions": ["n", "best_of", "stream", "max_tokens"],
  "openai-images": ["n", "quality", "size", "stream"],
  "openai-speech": ["stream_format"],
};
const otherFields = ["input", "instructions", "messages", "metadata", "prompt", "stream_options", "tools", "voice"];
// What is read of it has a limit of its own.
const mostBytes: Record<string, number> = { stream_options: 1_024 };

/** The longest text that was parsed or decoded while `work` ran, and what it threw. */
function watch(context: { mock: typeof test.mock }, work: () => unknown): { longest: number; thrown: unknown } {
  let longest = 0;
  const note = <T extends (...given: never[]) => unknown>(owner: object, name: string, real: T): void => {
    context.mock.method(
      owner as never,
      name as never,
      function (this: Buffer, ...given: never[]) {
        const result = real.apply(this, given);
        const looked: unknown = name === "parse" ? given[0] : result;
        if (typeof looked === "string") longest = Math.max(longest, looked.length);
        return result;
      } as never,
    );
  };
  note(JSON, "parse", JSON.parse as never);
  note(Buffer.prototype, "toString", Buffer.prototype.toString as never);
  note(Array, "from", ((given: ArrayLike<unknown>) => {
    longest = Math.max(longest, given.length);
    return [...(given as unknown[])];
  }) as never);
  let thrown: unknown;
  try {
    work();
  } catch (error) {
    thrown = error;
  } finally {
    context.mock.restoreAll();
  }
  return { longest, thrown };
}

const bodyWith = (field: string, value: string): Buffer => {
  const fields: Record<string, string> = { model: '"m"', input: '"x"', messages: "[]", prompt: '"x"', [field]: value };
  const written = Object.entries(fields).map(([name, text]) => `${JSON.stringify(name)}:${text}`);
  return Buffer.from(`{${written.join(",")}}`);
};

const jsonDialects = Object.values(dialects).filter(({ takesForm }) => !takesForm);

function readWatched(context: { mock: typeof test.mock }, dialect: Dialect, field: string, value: string) {
  const body = readJsonBody(bodyWith(field, value));
  return watch(context, () => dialect.readEnvelope(body, "m"));
}

for (const dialect of jsonDialects) {
  test(`${dialect.name}: what stands in a field of one value is refused by its first byte and its length`, (context) => {
    for (const field of scalarFields[dialect.name] ?? []) {
      for (const [what, value] of Object.entries(values)) {
        const { longest, thrown } = readWatched(context, dialect, field, value);
        assert.ok(thrown instanceof RequestError, `${field}: ${what}`);
        assert.match(
          thrown.message,
          new RegExp(`^field ${field} must (not be an object or an array|have at most 64 bytes)$`),
        );
        assert.ok(longest <= maxScalarBytes, `${field}: ${what}: ${longest} characters were looked at`);
      }
    }
  });

  test(`${dialect.name}: no field of any kind or size is read as a whole before money`, (context) => {
    for (const field of [...Object.values(scalarFields).flat(), ...otherFields]) {
      for (const [what, value] of Object.entries(values)) {
        const { longest, thrown } = readWatched(context, dialect, field, value);
        assert.ok(thrown === undefined || thrown instanceof RequestError, `${field}: ${what}: ${String(thrown)}`);
        const most = mostBytes[field] ?? maxScalarBytes;
        assert.ok(longest <= most, `${field}: ${what}: ${longest} characters were looked at`);
      }
    }
  });
}

test("a field of a form is refused by its length", (context) => {
  const form = (field: string): Buffer => {
    const parts = { model: "m", [field]: "x".repeat(large) };
    const written = Object.entries(parts).map(
      ([name, value]) => `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
    );
    return Buffer.from(`${written.join("")}--b--\r\n`);
  };
  for (const field of ["stream", "response_format"]) {
    const body = readFormBody(form(field), "multipart/form-data; boundary=b");
    const { longest, thrown } = watch(context, () => dialects["openai-transcriptions"].readEnvelope(body, "m"));
    assert.ok(thrown instanceof RequestError, field);
    assert.ok(longest <= maxScalarBytes, `${field}: ${longest} characters were looked at`);
  }
});
