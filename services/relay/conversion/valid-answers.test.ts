import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { declaredIn } from "../dialects/testing/ending-kinds.ts";
import { readType } from "../testing/declared-types.ts";
import { findInvalid } from "../testing/find-invalid.ts";
import { matrixCells } from "../testing/matrix.ts";

const modules = join(import.meta.dirname, "../../../node_modules");
const typeOf = (file: string, name: string) => readType(join(modules, file), name);

/** What an answer of a format is, and an event of its stream. */
const types = {
  "openai-chat": [typeOf(declaredIn.chat, "ChatCompletion"), typeOf(declaredIn.chat, "ChatCompletionChunk")],
  "openai-responses": [typeOf(declaredIn.responses, "Response"), typeOf(declaredIn.responses, "ResponseStreamEvent")],
  "anthropic-messages": [typeOf(declaredIn.messages, "Message"), typeOf(declaredIn.messages, "RawMessageStreamEvent")],
} as const;

// The client makes it of the output.
const madeByClients = /\.output_text is missing$/;

type Written = { whole: unknown; stream: string[] };

const dataOf = (event: string): string | undefined =>
  event
    .split("\n")
    .find((line) => line.startsWith("data: "))
    ?.slice("data: ".length);

test("every answer that a conversion writes, and every event, is valid by the types of the official clients", () => {
  const cells = matrixCells().filter(({ file }) => file.startsWith("replies/"));
  assert.ok(cells.length > 30, "there are answers");
  for (const { name, file, result } of cells) {
    const format = Object.keys(types).find((one) => file.endsWith(`.${one}.json`)) as keyof typeof types;
    const [ofWhole, ofEvent] = types[format];
    const { whole, stream } = result as Written;
    const events = stream.map(dataOf).filter((data) => data !== undefined && data !== "[DONE]") as string[];
    const found = [
      ...findInvalid(whole, ofWhole, format),
      ...events.flatMap((data) => findInvalid(JSON.parse(data) as unknown, ofEvent, `${format} event`)),
    ];
    assert.deepEqual(
      found.filter((problem) => !madeByClients.test(problem)),
      [],
      name,
    );
  }
});
