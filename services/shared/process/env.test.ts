import assert from "node:assert/strict";
import { test } from "node:test";
import { Type } from "typebox";
import { readVariables } from "./env.ts";

const variables = Type.Object({
  HTTP_PORT: Type.Integer({ description: "Port.", minimum: 1, maximum: 65_535, default: 8080 }),
  TRUSTS_PROXY: Type.Boolean({ description: "Whether.", default: false }),
  ADDRESS: Type.String({ description: "Address.", minLength: 1 }),
  LOG_LEVEL: Type.Union([Type.Literal("info"), Type.Literal("debug")], { description: "Level.", default: "info" }),
});

test("text becomes the declared type, and what is not set gets its default", () => {
  assert.deepEqual(readVariables(variables, { ADDRESS: "127.0.0.1:1", TRUSTS_PROXY: "true" }), {
    HTTP_PORT: 8080,
    TRUSTS_PROXY: true,
    ADDRESS: "127.0.0.1:1",
    LOG_LEVEL: "info",
  });
});

test("all problems are named together, one per line", () => {
  assert.throws(
    () => readVariables(variables, { HTTP_PORT: "70000", TRUSTS_PROXY: "maybe", LOG_LEVEL: "loud" }),
    (error: Error) => {
      const [first, ...problems] = error.message.split("\n  ");
      assert.equal(first, "configuration is not usable:");
      const names = ["HTTP_PORT", "TRUSTS_PROXY", "ADDRESS", "LOG_LEVEL"];
      const named = problems.map((problem) => names.filter((name) => problem.includes(name)));
      assert.ok(named.every((found) => found.length === 1));
      assert.deepEqual(new Set(named.flat()), new Set(names));
      return true;
    },
  );
});

test("a refused value is not repeated, because it may be a secret", () => {
  assert.throws(
    () => readVariables(variables, { ADDRESS: "", HTTP_PORT: "hunter2" }),
    (error: Error) => !error.message.includes("hunter2"),
  );
});

test("variables that the service does not declare do not reach it", () => {
  assert.equal("HOME" in readVariables(variables, { ADDRESS: "a", HOME: "somewhere" }), false);
});

test("only what is handed in is read, not the process's own environment", () => {
  assert.throws(() => readVariables(Type.Object({ PATH: Type.String() }), {}), /PATH/);
});
