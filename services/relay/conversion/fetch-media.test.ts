import assert from "node:assert/strict";
import { test } from "node:test";
import type { Conversation, Part } from "../dialects/conversation.ts";
import { CallFailure } from "../failures.ts";
import { FetchRefusedError } from "#shared/net/guarded-agent.ts";
import { embedFetched, urlsToFetch } from "../dialects/fetched-media.ts";
import { fetchUrls, type FetchUrl, type MediaFetching } from "./fetch-media.ts";

const conversationOf = (...urls: string[]): Conversation => ({
  turns: [{ role: "user", parts: urls.map((url): Part => ({ kind: "image", source: { kind: "url", url } })) }],
  tools: [],
  stopSequences: [],
  isStream: false,
  wantsStreamUsage: false,
});

const fetchMedia = async (conversation: Conversation, fetching: MediaFetching): Promise<Conversation> =>
  embedFetched(conversation, await fetchUrls(urlsToFetch(conversation), fetching));
const roomy = { claim: () => true };
const fetchUrl: FetchUrl = async (url) => ({ contentType: "image/png; charset=x", body: Buffer.from(url) });
const failureOf = async (work: Promise<unknown>): Promise<CallFailure> => {
  const error: unknown = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof CallFailure);
  return error;
};

test("pictures stand in the place of their addresses, each address fetched once", async () => {
  const asked: string[] = [];
  const counted: FetchUrl = (url, limits) => {
    asked.push(url);
    return fetchUrl(url, limits);
  };
  const { turns } = await fetchMedia(
    conversationOf("https://a.example/1", "https://a.example/1", "https://b.example"),
    {
      share: roomy,
      fetchUrl: counted,
    },
  );
  assert.deepEqual(asked, ["https://a.example/1", "https://b.example"]);
  assert.deepEqual(turns[0]?.parts[0], {
    kind: "image",
    source: { kind: "base64", mediaType: "image/png", data: Buffer.from("https://a.example/1").toString("base64") },
  });
});

test("what cannot be read is the caller's mistake, and the caller learns only the address that was given", async () => {
  const refusing: FetchUrl = () => Promise.reject(new FetchRefusedError("address 10.0.0.7 of a.example"));
  const { failure } = await failureOf(
    fetchMedia(conversationOf("https://a.example"), { share: roomy, fetchUrl: refusing }),
  );
  assert.equal(failure.name, "field_invalid");
  assert.equal(failure.detail, "the address https://a.example could not be read");
  assert.ok(failure.cause instanceof FetchRefusedError);
});

test("without a fetcher of its own it goes through the guard: the metadata service is out of reach", async () => {
  for (const url of [
    "https://169.254.169.254/latest",
    "http://a.example/x",
    "https://localhost/x",
    "file:///etc/passwd",
  ]) {
    const { failure } = await failureOf(fetchMedia(conversationOf(url), { share: roomy }));
    assert.equal(failure.name, "field_invalid", url);
  }
});

test("what arrives is claimed as it comes, so that what is fetched for many at once is bounded, too", async () => {
  const claims: number[] = [];
  const share = { claim: (bytes: number) => (claims.push(bytes), bytes < 600) };
  const slow: FetchUrl = async (url, { onBytes }) => {
    for (const bytes of [100, 200, 300]) onBytes?.(bytes);
    return fetchUrl(url, { maxBytes: 300, timeoutMs: 1 });
  };
  const { failure } = await failureOf(fetchMedia(conversationOf("https://a.example"), { share, fetchUrl: slow }));
  assert.equal(failure.name, "service_unavailable");
  assert.deepEqual(claims, [234, 467, 700]);
});

test("nothing is fetched any more for a caller who has left", async () => {
  const left = new AbortController();
  const waiting: FetchUrl = async (url, { signal }) => {
    left.abort();
    assert.ok(signal?.aborted);
    throw new FetchRefusedError(url);
  };
  const fetching = { share: roomy, signal: left.signal, fetchUrl: waiting };
  assert.equal(
    (await failureOf(fetchMedia(conversationOf("https://a.example"), fetching))).failure.name,
    "field_invalid",
  );
});

test("at most 16 addresses, and only as many bytes as there is room for", async () => {
  const urls = Array.from({ length: 17 }, (_, index) => `https://a.example/${index}`);
  assert.equal(
    (await failureOf(fetchMedia(conversationOf(...urls), { share: roomy, fetchUrl }))).failure.name,
    "field_invalid",
  );
  const claims: number[] = [];
  const share = { claim: (bytes: number) => (claims.push(bytes), bytes < 60) };
  const { failure } = await failureOf(fetchMedia(conversationOf(...urls.slice(0, 3)), { share, fetchUrl }));
  assert.equal(failure.name, "service_unavailable");
  assert.deepEqual(claims, [45, 90]);
});

test("an address as long as a body is refused by its first characters", async () => {
  const address = `data:${";".repeat(120_000_000)},x`;
  const { failure } = await failureOf(fetchUrls([address], { share: roomy }));
  assert.equal(failure.name, "field_invalid");
  assert.ok((failure.detail?.length ?? 0) < 300);
});
