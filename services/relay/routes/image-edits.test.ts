import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI, { toFile } from "openai";
import { bucketsOf, charged, key, quotaOf, start } from "../testing/realtime-client.ts";

const relay = await start();
const client = new OpenAI({ baseURL: `${relay.url}/v1`, apiKey: "sk-right", maxRetries: 0 });
const picture = (name: string, bytes = 100) => toFile(Buffer.alloc(bytes, "p"), name, { type: "image/png" });

test("a form with several pictures, by the official client: its model is put, and its tokens are charged", async () => {
  const image = [await picture("a.png"), await picture("b.png", 400_000)];
  const edited = await client.images.edit({ model: "paint", image, prompt: "make it blue", quality: "low", n: 2 });
  assert.equal(edited.data?.length, 2);
  const sent = relay.fake.received.at(-1);
  assert.equal(sent?.path, "/v1/images/edits");
  assert.equal(sent.body?.["model"], "gpt-image-fake");
  const [record] = charged(relay);
  assert.ok(record);
  assert.deepEqual(Object.fromEntries(bucketsOf(record)), { inputTokens: 3n, imageOutputTokens: 544n });
  assert.equal(record.endpoint, "/v1/images/edits");
  // Two pictures at 5 USD, and two made of 408 tokens at 40 USD, for 1,000,000 tokens.
  assert.ok((quotaOf(relay).of("reserve").at(-1)?.estimateNanos ?? 0n) > 2n * 7_300n * 5_000n + 816n * 40_000n);
});

test("as a stream", async () => {
  const asked = {
    model: "paint",
    image: await picture("a.png"),
    prompt: "x",
    stream: true,
    partial_images: 1,
  } as const;
  const types: string[] = [];
  for await (const { type } of await client.images.edit(asked)) types.push(type);
  assert.deepEqual(types, ["image_edit.partial_image", "image_edit.completed"]);
});

const edit = async (body: unknown) => {
  const headers = { ...key, "content-type": "application/json" };
  const answer = await fetch(`${relay.url}/v1/images/edits`, { method: "POST", headers, body: JSON.stringify(body) });
  return { status: answer.status, text: await answer.text() };
};

test("JSON with addresses, or with pictures in it", async () => {
  for (const image_url of ["https://pictures.example/a.png", `data:image/png;base64,${"A".repeat(400_000)}`]) {
    const { status, text } = await edit({ model: "paint", prompt: "x", images: [{ image_url }], n: 1 });
    assert.equal(status, 200, text);
    assert.equal(relay.fake.received.at(-1)?.body?.["model"], "gpt-image-fake");
  }
});

test("what is missing or no number is named, and files of somebody else are refused", async () => {
  const images = [{ image_url: "https://pictures.example/a.png" }];
  const rows: [body: object, message: RegExp][] = [
    [{ model: "paint", prompt: "x" }, /field image is required/],
    [{ model: "paint", images }, /field prompt is required/],
    [{ prompt: "x", images }, /field model is required/],
    [{ model: "paint", prompt: "x", images, n: "2x" }, /field n must be a number/],
    [{ model: "paint", prompt: "x", images: [{ file_id: "file-1" }] }, /names nothing that this account got/],
  ];
  for (const [body, message] of rows) {
    const { status, text } = await edit(body);
    assert.equal(status, 400);
    assert.match(text, message);
  }
});

test("images that name no model are of OpenAI's own", async () => {
  await client.images.generate({ prompt: "x" });
  assert.equal(relay.fake.received.at(-1)?.body?.["model"], "dall-e-2");
  await client.images.generate({ prompt: "x", model: null });
  assert.match(relay.fake.received.at(-1)?.rawBody.toString() ?? "", /^\{"prompt":"x","model":"dall-e-2"\}$/);
});
