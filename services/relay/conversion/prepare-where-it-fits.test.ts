import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseRoutes } from "../catalog/choose.ts";
import { dialects } from "../dialects/index.ts";
import { readEnvelope } from "../http/read.ts";
import { modelOf, upstreamOf } from "../testing/fakes.ts";
import { largeBytes, longBytes, manyValues, type ThreadSession } from "../threads/threads.ts";
import { prepareWhereItFits } from "./prepare-where-it-fits.ts";

const dialect = dialects["openai-chat"];

/** Whether a thread prepares this conversation for an upstream of a dialect. */
function isInThread(message: object, spoken: string): boolean {
  const upstream = upstreamOf({ dialects: [spoken as never] });
  const model = modelOf({ routes: [{ upstream, model: "its-name", priority: 0, weight: 0 }] });
  const body = Buffer.from(JSON.stringify({ model: "m", messages: [message] }));
  const envelope = readEnvelope(body, dialect, {});
  let sent: unknown;
  const session = { add: (_side: string, piece: Buffer) => (sent = piece), work: () => new Promise(() => undefined) };
  const preparing = { envelope, dialect, model, inputTokens: 1, share: () => ({ claim: () => true }) };
  const openSession = (): ThreadSession => session as unknown as ThreadSession;
  const routes = chooseRoutes(model, dialect.name);
  prepareWhereItFits(preparing, routes, { body, headers: {}, openSession }, undefined);
  assert.ok(sent === undefined || sent === body);
  return sent === body;
}

const text = (bytes: number) => ({ role: "user", content: "x".repeat(bytes) });
const many = { role: "user", content: Array.from({ length: manyValues }, () => "x") };
const kept = { role: "assistant", content: "x".repeat(largeBytes), extra_content: { google: {} } };

test("a body that passes is prepared on the event loop, a long one that is converted in a thread", () => {
  assert.equal(isInThread(text(longBytes), "openai-chat"), false);
  assert.equal(isInThread(text(1_000), "anthropic-messages"), false);
  assert.equal(isInThread(text(largeBytes), "anthropic-messages"), true);
});

test("so is one of many values", () => {
  assert.equal(isInThread(many, "openai-chat"), false);
  assert.equal(isInThread(many, "anthropic-messages"), true);
});

test("a long body that passes is prepared in a thread where it must be read as a whole", () => {
  assert.equal(isInThread(kept, "openai-chat"), true);
  assert.equal(isInThread({ ...kept, content: "x" }, "openai-chat"), false);
});
