import assert from "node:assert/strict";
import { test } from "node:test";
import { tallyReaderOf } from "../testing/reading.ts";

const readReply = tallyReaderOf("openai-moderations");

test("verdicts are content; there are no counts", () => {
  const tally = readReply({ id: "modr-1", model: "served", results: [{ flagged: false }] });
  assert.ok(tally?.isComplete && tally.hasContent);
  assert.equal(tally.usage, undefined);
  assert.equal(tally.modelServed, "served");
  assert.equal(readReply({ results: [] })?.hasContent, false);
  for (const body of [undefined, null, {}, { results: 7 }]) assert.equal(readReply(body), undefined);
});
