import assert from "node:assert/strict";
import { test } from "node:test";
import { Command } from "ioredis";
import { encodeCommand } from "./money-command.ts";

const texts = ["", "a", "x".repeat(9), "x".repeat(10), "x".repeat(64), "x".repeat(65), "ü", `${"x".repeat(60)}ü😀`];
const large = [Buffer.alloc(0), Buffer.from([0, 255, 13, 10]), Buffer.alloc(100_000, 7), "ß".repeat(70_000)];

test("a command has the bytes that the client itself would write, however many were written before", () => {
  const written: [Buffer, Buffer][] = [];
  for (let count = 0; count < 300; count += 1) {
    const values = [...texts, ...(count % 50 === 0 ? large : []), ...texts.slice(0, count % 9), String(count)];
    const own = Buffer.from(new Command("evalsha", ["sha", "1", "key", ...values]).toWritable({}));
    written.push([encodeCommand(["evalsha", "sha", "1", "key"], values), own]);
  }
  for (const [bytes, own] of written) assert.ok(bytes.equals(own));
});
