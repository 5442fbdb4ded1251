import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { getPriority } from "node:os";
import { test } from "node:test";
import { startProcess } from "#shared/testing/child-process.ts";
import { precedence, setPrecedence } from "./precedence.ts";

test("what goes last gives way with its threads and as a session; what is gone cannot be put anywhere", async () => {
  const lagging = await startProcess({ command: "sleep", args: ["60"], orphanSignal: "SIGKILL" });
  try {
    assert.equal(setPrecedence([lagging.pid], "last"), true);
    assert.equal(getPriority(lagging.pid), precedence.last);
    const session = `/proc/${lagging.pid}/autogroup`;
    if (existsSync(session)) assert.match(readFileSync(session, "utf8"), /nice 19\n$/);
  } finally {
    await lagging.end("SIGKILL");
  }
  assert.equal(setPrecedence([lagging.pid], "last"), false);
});
