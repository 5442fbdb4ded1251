import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, beforeEach, describe, it } from "node:test";
import { promisify } from "node:util";
import { chatCode } from "../../html/snippets/chat-code.ts";
import type { Fields } from "../../testing/browser.ts";
import type { World } from "../../testing/console.ts";
import { chatEnd, chatEvent, type FakeApi } from "../../testing/fake-api.ts";
import { checkPage } from "../../testing/pages.ts";
import { conversationIn, linesOf, playgroundPath, startPlayground, type Playground } from "../../testing/playground.ts";

const run = promisify(execFile);

let playground: Playground;
let world: World;
let api: FakeApi;

before(async () => {
  playground = await startPlayground();
  ({ world, api } = playground);
});
after(() => playground[Symbol.asyncDispose]());
beforeEach(() => playground.reset());

const path = playgroundPath;
const post = (fields?: Fields) => playground.post(fields);
const stream = (fields?: Record<string, string>) => playground.stream(fields);

describe("a conversation", () => {
  const turn = (question: string, answer: string, requestId = "") => ({ question, answer, requestId });

  it("goes on by the field of the page before, and is cleared with the settings left", async () => {
    const asked = { system: "Be kind.", temperature: "0.7", "top-p": "0.9", effort: "low" };
    api.answer = (response) => response.end(chatEvent(`He said "<hi>"`) + chatEnd);
    const first = await post({ ...asked, message: "One & <two>" });
    api.answer = (response) => response.end(chatEvent("Second.") + chatEnd);
    const second = await post({ ...asked, message: "And?", conversation: conversationIn(first.text) });
    checkPage(second, path);
    assert.deepEqual(api.received[1]?.body, {
      model: "chat-large",
      messages: [
        { role: "system", content: "Be kind." },
        { role: "user", content: "One & <two>" },
        { role: "assistant", content: `He said "<hi>"` },
        { role: "user", content: "And?" },
      ],
      temperature: 0.7,
      top_p: 0.9,
      reasoning_effort: "low",
      stream: true,
    });
    assert.match(second.text, /He said &#34;&#60;hi&#62;&#34;<\/div>[^]*<h2>Message 2<\/h2>[^]*And\?[^]*Second\./);
    assert.equal(JSON.parse(conversationIn(second.text)).length, 2);
    const cleared = await post({ ...asked, clear: "yes", conversation: conversationIn(second.text) });
    checkPage(cleared, path);
    assert.equal(conversationIn(cleared.text), "");
    assert.doesNotMatch(cleared.text, /Second\./);
    assert.match(cleared.text, /name="temperature"[^>]* value="0\.7"/);
    assert.equal(api.received.length, 2);
  });

  it("keeps no message that was not answered: that stays in the form", async () => {
    api.answer = (response) => response.writeHead(429).end();
    const conversation = JSON.stringify([turn("A", "B")]);
    const seen = await post({ message: "Lost?", conversation });
    assert.equal(conversationIn(seen.text), conversation);
    assert.match(seen.text, /Lost\?<\/textarea>/);
    assert.equal((await linesOf(await stream({ conversation }))).at(-1)?.isKept, false);
  });

  it("ends after ten answers or 40 KiB, and the next message begins a new one", async () => {
    const nine = Array.from({ length: 9 }, () => turn("A", "B"));
    for (const conversation of [nine, [turn("A", "b".repeat(40_900))]].map((turns) => JSON.stringify(turns))) {
      const [end] = (await linesOf(await stream({ conversation }))).slice(-1);
      assert.equal(end?.conversation, "");
      assert.match(end?.note ?? "", /The next message begins a new one/);
    }
    assert.equal(api.received.length, 2);
  });

  it("that is too long or none is refused, and asks the API for nothing", async () => {
    const wrong = [
      "{",
      "{}",
      "[1]",
      `[{"question":1,"answer":"","requestId":""}]`,
      JSON.stringify(Array.from({ length: 10 }, () => turn("A", "B"))),
      JSON.stringify([turn("A", "b".repeat(40_960))]),
      JSON.stringify([{ ...turn("A", "B"), picture: 1 }]),
      JSON.stringify([{ ...turn("A", "B"), other: "C" }]),
    ];
    for (const conversation of wrong) {
      const seen = await post({ conversation });
      assert.equal(seen.status, 422);
      assert.match(seen.text, /<a href="#conversation">This conversation cannot be continued\. Clear it\./);
      checkPage(seen, path);
    }
    assert.deepEqual(api.received, []);
  });

  it("is sent on without what does not belong to it, however deep that is", async () => {
    const deep = `${"[".repeat(10_000)}${"]".repeat(10_000)}`;
    const conversation = `[{"question":"A","answer":"B","requestId":"","other":null,"deep":${deep}}]`;
    const seen = await post({ conversation });
    assert.equal(seen.status, 200);
    assert.deepEqual(JSON.parse(conversationIn(seen.text)), [turn("A", "B"), turn("Hi", "Hello")]);
  });

  it("and all fields at their most fit into one form, whatever letters they have", async () => {
    const conversation = JSON.stringify([turn("é", "é".repeat(20_400))]);
    const seen = await post({ conversation, message: "é".repeat(16_384), system: "é".repeat(4_096) });
    assert.equal(seen.status, 200);
    assert.equal(api.received.length, 1);
  });

  it("tells the tokens, time and exact cost of each turn from the ledger, of the account alone", async () => {
    const call = (accountId: string, inputTokens: bigint): string =>
      world.neighbours.usage.bookCall(accountId, Date.now() - 5_000, {
        usage: { inputTokens, cacheReadTokens: 1n, outputTokens: 7n },
        unitPriceNanos: { inputTokens: 1_250_000_000n, outputTokens: 10_000_000_000n },
      });
    const [earlier, foreign, now] = [call("acme", 1_999n), call("else", 5_555n), call("acme", 99n)];
    api.answer = (response) => response.setHeader("x-request-id", now).end(chatEvent("Hello") + chatEnd);
    const conversation = JSON.stringify([turn("A", "B", earlier), turn("C", "D", foreign)]);
    const text = (await post({ conversation })).text.replaceAll(/\s+/g, " ");
    assert.match(text, /Tokens in: 2,000 \(1 cached\) · tokens out: 7 · first token: 250 ms · latency: 2\.0 s/);
    assert.match(text, /Tokens in: 100 \(1 cached\)[^]*cost:<data class="money" value="0\.000193750"/);
    assert.doesNotMatch(text, /5,55/);
    assert.match(text, /Not in the ledger yet, or free/);
  });

  it("shows as code what was asked, which asks the same, with no secret in it", async () => {
    const conversation = JSON.stringify([turn("It's", `"B" \n $(rm) </code>`)]);
    const lines = await linesOf(await stream({ conversation, "top-p": "0.5" }));
    const code = lines.at(-1)?.code ?? "";
    assert.ok(!code.includes(playground.secretNow()));
    for (const language of ["curl", "Python", "Node"]) assert.match(code, new RegExp(`Code for ${language}`));
    assert.match(code, /RELAY_API_KEY/);
    assert.doesNotMatch(code, /\$\(rm\) <\/code>/);
    const question = { model: "chat-large", messages: [{ role: "user", content: "It's\n" }], top_p: 0.5 };
    const [curl, python, node] = chatCode("http://127.0.0.1:1", { ...question, temperature: undefined });
    const echo = `curl() { for last; do :; done; printf %s "$last"; }\n${curl?.text}`;
    const { stdout } = await run("sh", ["-c", echo]);
    assert.deepEqual(JSON.parse(stdout), { ...question, stream: true });
    assert.match(
      python?.text ?? "",
      /messages=\[\{"role": "user", "content": "It's\\n"\}\],\n    top_p=0\.5,\n    stream=True/,
    );
    assert.match(node?.text ?? "", /  top_p: 0\.5,\n  stream: true,\n\}\);/);
  });
});

describe("what goes with a message", () => {
  const tool = { type: "function", function: { name: "get_weather", parameters: { type: "object", strict: true } } };
  const callEvent = (index: number, name: string, given: string): string => {
    const delta = { tool_calls: [{ index, id: `call_${index}`, function: { name, arguments: given } }] };
    return `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`;
  };

  it("tools: what the model calls is shown, escaped, and stays out of the conversation", async () => {
    api.answer = (response) =>
      response.end(
        callEvent(0, "get_<b>", '{"city":') + callEvent(1, "now", "{}") + callEvent(0, "", '"Paris"}') + chatEnd,
      );
    const tools = JSON.stringify([tool]);
    const lines = await linesOf(await stream({ tools }));
    const calls = lines.flatMap(({ call }) => call ?? []);
    assert.deepEqual(calls, ['get_<b>({"city":"Paris"})', "now({})"]);
    assert.equal(lines.at(-1)?.isKept, false);
    assert.deepEqual(api.received[0]?.body?.["tools"], [tool]);
    const seen = await post({ tools });
    checkPage(seen, path);
    assert.match(seen.text, /get_&#60;b&#62;\({&#34;city&#34;/);
    const [, python, node] = chatCode("http://127.0.0.1:1", { model: "m", messages: [], tools: [tool] });
    assert.match(python?.text ?? "", /tools=\[\{"type": "function", .* "strict": True\}\}\}\],/);
    assert.match(node?.text ?? "", /tools: \[\{ type: "function", function: \{ name: "get_weather"/);
  });

  it("calls of tools without end are cut as any answer", async () => {
    api.answer = (response) => {
      for (let index = 0; index < 11_000; index += 1) response.write(callEvent(index, "", ""));
    };
    const lines = await linesOf(await stream({ tools: JSON.stringify([tool]) }));
    assert.ok(lines.some(({ problem }) => problem?.includes("too long")));
  });

  it("a picture by its address goes with all later messages, one of a file with its own alone", async () => {
    const address = "https://example.org/a.png?x=<y>";
    const first = await post({ "picture-address": address });
    checkPage(first, path);
    const file = "data:image/jpeg;base64,A/+AAAA=";
    const lines = await linesOf(await stream({ picture: file, conversation: conversationIn(first.text) }));
    const pictureIn = (index: number): unknown => {
      const messages = (api.received[1]?.body?.["messages"] ?? []) as { content: unknown }[];
      return messages[index]?.content;
    };
    const withPicture = (url: string) => [
      { type: "text", text: "Hi" },
      { type: "image_url", image_url: { url } },
    ];
    assert.deepEqual(pictureIn(0), withPicture(address));
    assert.deepEqual(pictureIn(2), withPicture(file));
    const turns = JSON.parse(lines.at(-1)?.conversation ?? "") as { picture?: string }[];
    assert.deepEqual(
      turns.map(({ picture }) => picture),
      [address, undefined],
    );
    assert.ok(!lines.at(-1)?.code?.includes(file), "code has no picture of 300 KB in it");
  });

  it("a second model: both answer at once, and each goes on with its own answers", async () => {
    api.answer = (response, { body }) => response.end(chatEvent(`I am ${String(body?.["model"])}`) + chatEnd);
    const first = await post({ compare: "chat-<small>" });
    checkPage(first, path);
    assert.match(first.text, /Answer 1 A: chat-large<\/h2>[^]*I am chat-large[^]*Answer 1 B: chat-&#60;small&#62;/);
    const lines = await linesOf(await stream({ compare: "chat-<small>", conversation: conversationIn(first.text) }));
    const said = (side: number): string => lines.flatMap((line) => (line.side === side && line.said) || []).join("");
    assert.deepEqual([said(0), said(1)], ["I am chat-large", "I am chat-<small>"]);
    for (const { body = {} } of api.received.slice(2)) {
      const messages = body["messages"] as { content: string }[];
      assert.equal(messages[1]?.content, `I am ${String(body["model"])}`);
    }
    assert.equal(api.received.length, 4);
    const turns = JSON.parse(lines.at(-1)?.conversation ?? "") as { other?: { answer: string } }[];
    assert.equal(turns[1]?.other?.answer, "I am chat-<small>");
  });

  it("a comparison takes two places, or none", async () => {
    const held: { end: (text: string) => void }[] = [];
    api.answer = (response) => {
      response.write(chatEvent("A"));
      held.push(response);
    };
    const running = await stream();
    const refused = await stream({ compare: "chat-small" });
    assert.equal(refused.status, 429);
    await refused.text();
    const second = await stream();
    assert.equal(second.status, 200, "the place that it gave back");
    for (const response of held) response.end(chatEnd);
    await Promise.all([running.text(), second.text()]);
  });
});
