import assert from "node:assert/strict";
import { test } from "node:test";
import { unitTests } from "./unit.ts";

test("a test from which an import leads to a program that is started is no unit test", () => {
  const texts = new Map([
    ["services/shared/testing/child.ts", 'import { spawn } from "node:child_process";'],
    ["services/a/testing/redis.ts", 'import {\n  start,\n} from "#shared/testing/child.ts";'],
    ["services/a/x.test.ts", 'import { redis } from "./testing/redis.ts";'],
    ["services/a/y.test.ts", 'import type { Redis } from "./testing/redis.ts";\nimport { y } from "./y.ts";'],
    ["services/a/y.ts", "export const y = 1;"],
    ["services/a/z.test.ts", 'import { chromium } from "playwright";'],
    ["services/a/w.test.ts", 'import "./testing/redis.ts";'],
  ]);
  assert.deepEqual(unitTests(texts), ["services/a/y.test.ts"]);
});
