import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { createShownReader } from "../dialects/testing/reading.ts";
import { readType } from "../testing/declared-types.ts";
import { blocksOfDeltas, streamKinds, type EventUse } from "../testing/stream-kinds.ts";

const modules = join(import.meta.dirname, "../../../node_modules");

for (const { dialect, what, types, kinds } of streamKinds) {
  test(`every ${what} of a stream of ${dialect} is read, or is known to mean nothing`, () => {
    const declared = types.flatMap(({ file, type }) => {
      const found = readType(join(modules, file), type).objects.flatMap(
        ({ fields }) => fields.get("type")?.shape().literals ?? [],
      );
      assert.ok(found.length > 4, "the type has kinds");
      return found.map(String);
    });
    const expected = Object.keys(kinds).toSorted();
    assert.deepEqual([...new Set(declared)].toSorted(), expected, "say in testing/stream-kinds.ts what it is read for");
  });
}

// Sound and pictures are content without tokens.
const counts = ["contentTokens", "hasContent", "usage"] as const;
const text = { type: "text", text: "" };

/** What comes before an event of a kind. */
function before(dialect: string, what: string, kind: string): object[] {
  if (dialect === "openai-responses") return [];
  const start = { type: "message_start", message: { id: "m", model: "m", content: [] } };
  if (what === "delta")
    return [start, { type: "content_block_start", index: 0, content_block: blocksOfDeltas[kind] ?? text }];
  if (kind === "content_block_delta") return [start, { type: "content_block_start", index: 0, content_block: text }];
  if (kind === "message_stop") return [start, { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: {} }];
  return kind === "message_start" ? [] : [start];
}

test("events are read for what is said of them, and for nothing else", () => {
  for (const { dialect, what, kinds } of streamKinds) {
    for (const [kind, { use, event }] of Object.entries(kinds)) {
      const reader = createShownReader(dialect);
      for (const one of before(dialect, what, kind)) reader.read(one);
      const tallyBefore = { ...reader.tally };
      const shown = reader.read({ type: kind, ...event }).map((part) => part.kind);
      const { tally } = reader;
      const isCounted = counts.some((count) => tally[count] !== tallyBefore[count]);
      let read: EventUse = shown.some((part) => part !== "error") ? "shown" : isCounted ? "counted" : "";
      if (tally.isComplete) read = "the end";
      if (tally.isFailed || shown.includes("error")) read = "an error";
      assert.equal(read, use, `${dialect} ${kind}`);
    }
  }
});
