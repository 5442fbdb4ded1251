import assert from "node:assert/strict";
import { test } from "node:test";
import { emptyTally, type StreamTap } from "../dialects/dialect.ts";
import { readStreamEvent } from "../dialects/sse.ts";
import { stateIdsOf } from "../dialects/openai-responses/state-ids.ts";
import { sealId } from "./sealed-id.ts";
import { IdSealer, sealTap } from "./seal-ids.ts";

const binding = { key: Buffer.alloc(32, 1), account: "acct_1", upstream: "openai" };
const seal = (id: string): string => sealId(id, binding);

test("a whole answer keeps its bytes but for its ids, which are sealed in order, also where some repeat", () => {
  const container = '"container_id": "cntr_1"';
  const text = `{ "id": "resp_2", "n": 1.0, "output": [
    {"id":"ci_1","type":"code_interpreter_call",${container}}, {"id":"ci_2",${container}},
    {"id":"msg_1","content":[{"text":"the id is \\"msg_1\\" or resp_2"}]} ], "previous_response_id": "resp_1" }`;
  const sealed = new IdSealer(binding).seal(Buffer.from(text), stateIdsOf(JSON.parse(text)));
  let expected = text;
  for (const id of ["resp_2", "ci_1", "ci_2", "msg_1", "resp_1"])
    expected = expected.replace(`"${id}"`, `"${seal(id)}"`);
  assert.equal(sealed.toString(), expected.replaceAll('"cntr_1"', `"${seal("cntr_1")}"`));
});

test("what the provider has left out of the input goes by the ids that the caller knows it by, wherever that is told", () => {
  const removed = '"input_transformations":[{"id":"rs_1","type":"reasoning"},{"id":"rs_2","type":"reasoning"}]';
  const output = '"output":[{"id":"msg_1"},{"id":"msg_2"}]';
  for (const fields of [`${removed},${output}`, `${output},${removed}`]) {
    const text = `{"id":"resp_1",${fields}}`;
    const sealed = new IdSealer(binding).seal(Buffer.from(text), stateIdsOf(JSON.parse(text)));
    const expected = text.replaceAll(/"((?:resp|rs|msg)_\d)"/g, (_, id: string) => `"${seal(id)}"`);
    assert.equal(sealed.toString(), expected);
  }
});

test("bytes without ids are the same bytes", () => {
  const bytes = Buffer.from('{"type":"response.other","text":"resp_1"}');
  assert.equal(new IdSealer(binding).seal(bytes, stateIdsOf(JSON.parse(bytes.toString()))), bytes);
  assert.equal(new IdSealer(binding).seal(bytes, ["nowhere"]), bytes);
});

test("every event of a stream names a response and its items by the same sealed ids", () => {
  const passing: StreamTap = { read: () => "pass", end: () => 'data: {"response":{"id":"resp_1"}}\n\n' };
  const tap = sealTap(passing, stateIdsOf, new IdSealer(binding));
  const write = (event: object): string => `event: x\ndata: ${JSON.stringify(event)}\n\n`;
  const pass = (event: object): unknown => {
    const verdict = tap.read(readStreamEvent(Buffer.from(write(event))), emptyTally());
    return Buffer.isBuffer(verdict) ? verdict.toString() : verdict;
  };
  const response = { id: "resp_1", output: [], previous_response_id: "resp_0" };
  const open = { ...response, id: seal("resp_1"), previous_response_id: seal("resp_0") };
  assert.equal(pass({ type: "response.created", response }), write({ type: "response.created", response: open }));
  const [id, sealed] = ["msg_1", seal("msg_1")];
  const added = { type: "response.output_item.added", item: { id, type: "message" } };
  assert.equal(pass(added), write({ ...added, item: { ...added.item, id: sealed } }));
  const delta = { type: "response.output_text.delta", item_id: id, delta: "msg_1" };
  assert.equal(pass(delta), write({ ...delta, item_id: sealed }));
  const completed = { type: "response.completed", response: { ...response, output: [added.item] } };
  assert.equal(
    pass(completed),
    write({ ...completed, response: { ...open, output: [{ ...added.item, id: sealed }] } }),
  );
  assert.equal(pass({ type: "response.queued" }), "pass");
  assert.equal(tap.end(emptyTally()), `data: {"response":{"id":"${seal("resp_1")}"}}\n\n`);
});
