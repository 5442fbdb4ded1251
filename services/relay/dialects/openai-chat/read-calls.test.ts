import assert from "node:assert/strict";
import { test } from "node:test";
import fastCheck from "fast-check";
import { foldReply, type Block, type ReplyEvent } from "../reply.ts";
import { createShownReader } from "../testing/reading.ts";

const delta = (fields: object, finish_reason: string | null = null): object => ({
  id: "c",
  model: "served",
  choices: [{ index: 0, delta: fields, finish_reason }],
});
const end = [delta({}, "tool_calls"), "[DONE]"];
const calls = (...fragments: object[]): object => delta({ tool_calls: fragments });
const begin = (index: number, id: string, name = "look"): object => ({ index, id, function: { name, arguments: "" } });
const more = (index: number, text: string): object => ({ index, function: { arguments: text } });

function read(data: unknown[]): ReplyEvent[] {
  const reader = createShownReader("openai-chat");
  return [...data.flatMap((one) => reader.read(one)), ...reader.end()];
}
const blocksOf = (...data: object[]): Block[] | undefined => foldReply(read([...data, ...end])).choices[0]?.blocks;
const callOf = (id: string, input: string, name = "look"): object => ({ kind: "call", id, name, input });

test("trap 20 (every parallel call kept): calls whose fragments are mixed are told one after the other, whole", () => {
  const mixed = [
    calls(begin(0, "a"), begin(1, "b", "seek")),
    calls(more(0, '{"x":"}')),
    calls(more(1, '{"y":')),
    calls(more(0, '"}'), more(1, "2}")),
  ];
  assert.deepEqual(blocksOf(...mixed), [callOf("a", '{"x":"}"}'), callOf("b", '{"y":2}', "seek")]);
  let open = 0;
  for (const { kind } of read([...mixed, ...end])) {
    open += kind === "block-start" ? 1 : kind === "block-end" ? -1 : 0;
    assert.ok(open === 0 || open === 1);
  }
});

const input = fastCheck.json({ maxDepth: 2 }).map((text) => `{"value":${text}}`);
const cut = (text: string, at: number): string[] => {
  const place = 1 + (at % (text.length - 1));
  return [text.slice(0, place), text.slice(place)];
};

test("in whatever order the fragments of calls come, each call has its own input", () => {
  const call = fastCheck.record({ text: input, at: fastCheck.nat() });
  const check = fastCheck.property(
    fastCheck.array(call, { minLength: 1, maxLength: 4 }),
    fastCheck.array(fastCheck.nat(3)),
    (asked, order) => {
      const left = asked.map(({ text, at }) => cut(text, at));
      const turns = [...order.filter((index) => index < left.length), ...asked.flatMap((_, index) => [index, index])];
      const fragments = turns.flatMap((index) => {
        const text = left[index]?.shift();
        return text === undefined ? [] : [calls(more(index, text))];
      });
      const opened = calls(...asked.map((_, index) => begin(index, `id${index}`)));
      const expected = asked.map(({ text }, index) => callOf(`id${index}`, text));
      assert.deepEqual(blocksOf(opened, ...fragments), expected);
    },
  );
  fastCheck.assert(check, { numRuns: 500 });
});

test("a call that comes alone is told as it comes", () => {
  const reader = createShownReader("openai-chat");
  const told = [calls(begin(0, "a")), calls(more(0, '{"x":')), calls(more(0, "1}")), calls(begin(1, "b"))].map((one) =>
    reader.read(one).map(({ kind }) => kind),
  );
  assert.deepEqual(told, [["start", "block-start"], ["block-delta"], ["block-delta"], ["block-end", "block-start"]]);
});

const late: Record<string, object[]> = {
  "its id": [{ index: 0, id: "a", type: "function" }, { index: 0, function: { name: "look" } }, more(0, '{"x":1}')],
  "an empty name": [begin(0, "a", ""), { index: 0, id: "a", function: { name: "look", arguments: '{"x":1}' } }],
  "its input": [{ index: 0, id: "a", function: { arguments: '{"x":' } }, begin(0, "a"), more(0, "1}")],
  "its id, without an index": [{ id: "a" }, { function: { name: "look" } }, { function: { arguments: '{"x":1}' } }],
  "an empty input": [more(0, ""), begin(0, "a"), more(0, '{"x":1}')],
};

for (const [what, fragments] of Object.entries(late)) {
  test(`a call whose name comes behind ${what} is told under it`, () => {
    assert.deepEqual(blocksOf(...fragments.map((one) => calls(one))), [callOf("a", '{"x":1}')]);
  });
}

test("a call that never gets a name is shown without one, behind everything else", () => {
  const blocks = blocksOf(calls({ index: 0, id: "a" }), delta({ content: "Hm" }), calls(more(0, "{}")));
  assert.deepEqual(blocks, [{ kind: "text", text: "Hm" }, callOf("a", "{}", "")]);
});

test("text ends the calls before it, those that wait as well", () => {
  const blocks = blocksOf(calls(begin(0, "a"), begin(1, "b")), delta({ content: "Hm" }));
  assert.deepEqual(blocks, [callOf("a", ""), callOf("b", ""), { kind: "text", text: "Hm" }]);
});

test("state of a call that waits stays its own", () => {
  const extra_content = { google: { thought_signature: "sig" } };
  const blocks = blocksOf(
    calls(begin(0, "a"), { ...begin(1, "b"), extra_content }),
    calls(more(0, "{}")),
    calls(more(1, "{}")),
  );
  const opaque = { issuer: "gemini-generate", value: "sig" };
  assert.deepEqual(blocks, [callOf("a", "{}"), { ...callOf("b", "{}"), opaque }]);
});

test("what waits has a limit, beyond which calls are told as they came", () => {
  const long = `{"x":"${"a".repeat(600_000)}`;
  const kinds = read([calls(begin(0, "a"), begin(1, "b")), calls(more(1, long)), calls(more(1, long))]).map(
    ({ kind }) => kind,
  );
  assert.deepEqual(kinds.slice(0, 5), ["start", "block-start", "block-end", "block-start", "block-delta"]);
});
