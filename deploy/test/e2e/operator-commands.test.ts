import assert from "node:assert/strict";
import { test } from "node:test";
import { changing, commandLines, entryOf, notRun, readOnly } from "./operator-commands.ts";

test("the commands of runbooks and of pages for operators are run by a long test, or there is a reason why not", () => {
  const lines = commandLines();
  assert.ok(lines.length > 80, `found only ${lines.length}`);
  const lists = [readOnly, changing, notRun] as const;
  const odd = lines.filter((line) => lists.filter((list) => entryOf<unknown>(list, line)).length !== 1);
  assert.deepEqual(odd, [], "in none of the lists, or in several");
  for (const list of lists) {
    const idle = list.filter((entry) => !lines.some((line) => entryOf<unknown>(list, line) === entry));
    assert.deepEqual(idle, [], "stand for no command");
  }
});
