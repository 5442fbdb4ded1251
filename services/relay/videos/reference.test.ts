import assert from "node:assert/strict";
import { test } from "node:test";
import { CallFailure } from "../failures.ts";
import { FetchRefusedError } from "#shared/net/guarded-agent.ts";
import type { GivenReference } from "./read.ts";
import { maxReferenceBytes, readReference, type ReferenceReading } from "./reference.ts";

const begins = {
  "image/png": Buffer.from("\x89PNG\r\n\x1a\nrest", "latin1"),
  "image/jpeg": Buffer.from("\xff\xd8\xff\xe0rest", "latin1"),
  "image/webp": Buffer.from("RIFF\x24\x00\x00\x00WEBPVP8 ", "latin1"),
};

/** Reads with a budget that has room, and nothing that could be fetched, unless the test says otherwise. */
function read(given: GivenReference, changes: Partial<ReferenceReading> = {}) {
  const steps: string[] = [];
  const reading: ReferenceReading = {
    share: { claim: () => true },
    checkKey: async () => void steps.push("key"),
    fetchUrl: async () => {
      steps.push("fetch");
      throw new FetchRefusedError("address 10.0.0.1 of inside.example");
    },
    ...changes,
  };
  return { steps, reference: readReference(given, reading) };
}

const isTold =
  (name: string, words = /./) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof CallFailure, String(error));
    assert.equal(error.failure.name, name);
    if (name === "field_invalid") assert.match(error.failure.detail ?? "", words);
    return true;
  };

for (const [mediaType, content] of Object.entries(begins)) {
  test(`a picture is known by its first bytes: ${mediaType}`, async () => {
    const wanted = { content, mediaType };
    assert.deepEqual(await read({ content }).reference, wanted);
    // Whatever its address says of it.
    const address = `data:text/html;base64,${content.toString("base64")}`;
    const { reference, steps } = read({ address });
    assert.deepEqual(await reference, wanted);
    assert.deepEqual(steps, [], "nothing is fetched");
  });
}

test("a picture of a form does not keep the form in memory", async () => {
  const form = Buffer.alloc(1_000_000);
  begins["image/png"].copy(form, 100);
  const { content } = await read({ content: form.subarray(100, 100_100) }).reference;
  assert.deepEqual(Buffer.from(content), form.subarray(100, 100_100));
  assert.ok(content.buffer.byteLength < form.length, `${content.buffer.byteLength} bytes are kept`);
});

test("anything else is no picture", async () => {
  for (const text of ["", "GIF89a", "<svg>", "RIFF....WAVE", "\x89PNG", "BM"]) {
    await assert.rejects(
      read({ content: Buffer.from(text, "latin1") }).reference,
      isTold("field_invalid", /PNG, JPEG/),
    );
  }
  await assert.rejects(read({ address: "data:image/png,text" }).reference, isTold("field_invalid", /PNG, JPEG/));
});

test("a picture has at most 10 MiB", async () => {
  const just = Buffer.concat([begins["image/png"], Buffer.alloc(maxReferenceBytes)]).subarray(0, maxReferenceBytes);
  assert.equal((await read({ content: just }).reference).content.length, 10_485_760);
  const content = Buffer.concat([just, Buffer.from("x")]);
  await assert.rejects(read({ content }).reference, isTold("field_invalid", /at most 10 MiB/));
});

test("an address is fetched through the guard, bounded, after the key is known", async () => {
  const steps: unknown[] = [];
  const { reference } = read(
    { address: "https://example.com/a.webp" },
    {
      checkKey: async () => void steps.push("key"),
      fetchUrl: async (url, { maxBytes, timeoutMs }) => {
        steps.push([url, maxBytes, timeoutMs]);
        return { contentType: "text/plain", body: begins["image/webp"] };
      },
    },
  );
  assert.equal((await reference).mediaType, "image/webp");
  assert.deepEqual(steps, ["key", ["https://example.com/a.webp", 10_485_760, 15_000]]);
});

test("an address that may not be fetched is refused, and tells nothing of what is behind it", async () => {
  const { reference, steps } = read({ address: "https://inside.example/a.png" });
  await assert.rejects(
    reference,
    isTold("field_invalid", /^the address https:\/\/inside\.example\/a\.png could not be read$/),
  );
  assert.deepEqual(steps, ["key", "fetch"]);
});

test("without room in the budget nothing is fetched or kept", async () => {
  const share = { claim: () => false };
  const { reference, steps } = read({ address: "https://example.com/" }, { share });
  await assert.rejects(reference, isTold("service_unavailable"));
  assert.deepEqual(steps, []);
  await assert.rejects(read({ content: begins["image/png"] }, { share }).reference, isTold("service_unavailable"));
});
