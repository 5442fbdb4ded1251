import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { createLog, infoPlain, type Logger } from "./log.ts";

const secret = "sk-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6";
const prompt = "my private question";

/** What `write` makes the log put out, as text and line by line. */
function written(write: (log: Logger) => void): { text: string; lines: Record<string, unknown>[] } {
  let text = "";
  write(createLog("relay", "trace", { write: (line) => void (text += line) }));
  const lines = text.split("\n").filter((line) => line !== "");
  return { text, lines: lines.map((line) => JSON.parse(line) as Record<string, unknown>) };
}

test("an event is one JSON line with service, level in words, time in ISO form and what was given", () => {
  const { lines } = written((log) => log.info({ rid: "r1" }, "call ended"));
  assert.equal(lines.length, 1);
  assert.partialDeepStrictEqual(lines[0], { service: "relay", level: "info", rid: "r1", ["msg"]: "call ended" });
  assert.equal(new Date(String(lines[0]?.["time"])).toISOString(), lines[0]?.["time"]);
});

test("a child keeps the rid in each of its lines", () => {
  const { lines } = written((log) => {
    const child = log.child({ rid: "r2" });
    child.info("a");
    child.warn("b");
  });
  assert.deepEqual(
    lines.map((line) => line["rid"]),
    ["r2", "r2"],
  );
});

test("secrets and prompts are redacted by name in any case and at every depth", () => {
  const names = ["authorization", "x-api-key", "cookie", "set-cookie", "secret", "password", "credential", "keyHash"];
  for (const name of [...names, "messages", "prompt", "input", "body", "Authorization", "X-API-Key"]) {
    const hidden = { [name]: { text: prompt } };
    for (const value of [hidden, { a: hidden }, { a: [{ b: hidden }] }, { a: { b: { c: { d: hidden } } } }]) {
      const { text } = written((log) => log.info(value, "event"));
      assert.ok(!text.includes(prompt), `${name} shows in ${text}`);
      assert.ok(text.includes("[redacted]"), text);
    }
  }
});

test("what a child always says is redacted too", () => {
  const { text } = written((log) => log.child({ authorization: prompt }).info("event"));
  assert.ok(!text.includes(prompt), text);
});

test("what is logged is not changed, and an object that contains itself ends", () => {
  const call: Record<string, unknown> = { headers: { authorization: prompt }, at: new Date(0), units: 7n };
  call["self"] = call;
  const { text, lines } = written((log) => log.info(call, "event"));
  assert.ok(!text.includes(prompt), text);
  assert.deepEqual([lines[0]?.["at"], lines[0]?.["units"]], ["1970-01-01T00:00:00.000Z", 7]);
  assert.deepEqual(call["headers"], { authorization: prompt });
});

test("the Authorization header never shows, in whatever form it is logged", () => {
  const forms: object[] = [
    { headers: { authorization: `Bearer ${secret}` } },
    { headers: { Authorization: `Bearer ${secret}` } },
    { headers: ["Authorization", `Bearer ${secret}`] },
    { rawHeaders: ["authorization", `bearer ${secret}`] },
    { a: { b: { c: { d: { authorization: `Bearer ${secret}` } } } } },
    { note: `the caller sent Authorization: Bearer ${secret}` },
    { err: new Error("outer", { cause: Object.assign(new Error("inner"), { headers: { Cookie: secret } }) }) },
    { err: Object.assign(new Error(`refused ${secret}`), { options: { headers: { "X-Api-Key": secret } } }) },
  ];
  for (const form of forms) {
    const { text, lines } = written((log) => log.error(form, `failed for ${secret}`));
    assert.ok(!text.includes(secret.slice(3, 12)), `the secret shows in ${text}`);
    assert.equal(lines.length, 1);
  }
});

test("a bearer token that is not one of our keys does not show either", () => {
  const { text } = written((log) => log.info({ note: "authorization: Bearer eyJhbGciOi.J9.x-_y" }, "event"));
  assert.ok(!text.includes("eyJhbGciOi"), text);
});

test("an error shows its type, its words and its stack", () => {
  const { lines } = written((log) => log.error({ err: new RangeError("too far") }, "failed"));
  assert.partialDeepStrictEqual(lines[0]?.["err"], { type: "RangeError", message: "too far" });
  assert.match(JSON.stringify(lines[0]), /"stack":"RangeError: too far.*log\.test\.ts/);
});

test("whatever was thrown is shown, an Error or not", () => {
  const { lines } = written((log) => log.error({ err: "text", why: new Error("inner") }, "failed"));
  assert.equal(lines[0]?.["err"], "text");
  assert.partialDeepStrictEqual(lines[0]?.["why"], { type: "Error", message: "inner" });
});

test("a level below the one set writes nothing", () => {
  let text = "";
  createLog("relay", "warn", { write: (line) => void (text += line) }).info("quiet");
  assert.equal(text, "");
});

test("a plain line is what the logger itself would write, secrets that look like one redacted", () => {
  const fields = {
    rid: "r1",
    status: 200,
    isStream: false,
    'odd"name': "a\nb\u2028é",
    account: undefined,
    ip: `Bearer ${prompt}`,
  };
  const { lines, text } = written((log) => {
    log.info(fields, 'call "ended"');
    infoPlain(log, fields, 'call "ended"');
  });
  const [usual, plain] = text
    .trimEnd()
    .split("\n")
    .map((line) => line.replace(/"time":"[^"]*"/, ""));
  assert.equal(plain, usual);
  assert.equal(new Date(String(lines[1]?.["time"])).toISOString(), lines[1]?.["time"]);
  assert.ok(!text.includes(`Bearer ${prompt.split(" ", 1)[0]}`), text);
});

test("a plain line is left out below the level, and a child writes it with what it always says", () => {
  const { lines } = written((log) => {
    infoPlain(log.child({ rid: "r2" }), { status: 200 }, "call");
    log.level = "warn";
    infoPlain(log, { status: 200 }, "call");
  });
  assert.deepEqual(
    lines.map((line) => [line["rid"], line["status"]]),
    [["r2", 200]],
  );
});

test("gathered lines are all there when a process exits", () => {
  const script = `import { createLog, gatherLines, infoPlain } from ${JSON.stringify(import.meta.resolve("./log.ts"))};
    const log = createLog("relay", "info", gatherLines("relay"));
    for (let at = 0; at < 1_000; at += 1) infoPlain(log, { at, text: "é" }, "call");`;
  const { stdout } = spawnSync(process.execPath, ["--input-type=module-typescript", "-e", script], {
    encoding: "utf8",
  });
  const lines = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as { at: number; text: string });
  assert.deepEqual([lines.length, lines.at(-1)], [1_000, { ...lines.at(-1), at: 999, text: "é" }]);
});

test("lines that nobody reads wait within bounds; those beyond are dropped, and how many is told", async () => {
  const script = `import { createLog, gatherLines, infoPlain } from ${JSON.stringify(import.meta.resolve("./log.ts"))};
    const log = createLog("relay", "info", gatherLines("relay", 1_000_000));
    for (let at = 0; at < 20_000; at += 1) infoPlain(log, { at, text: "x".repeat(200) }, "call");
    process.stderr.write("written");`;
  const child = spawn(process.execPath, ["--input-type=module-typescript", "-e", script]);
  await once(child.stderr, "data");
  const lines = (await text(child.stdout))
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as { at?: number; service: string; level: string; dropped?: number });
  const told = lines.pop();
  assert.deepEqual([told?.service, told?.level], ["relay", "error"]);
  assert.ok(lines.length > 2_000 && lines.length < 6_000, `${lines.length} lines`);
  assert.equal(told?.dropped, 20_000 - lines.length);
  assert.ok(lines.every(({ at }, index) => at === index));
});
