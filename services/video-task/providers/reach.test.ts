import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { LLMock } from "@copilotkit/aimock";
import { RefusalReason } from "#proto/video/v1/video_pb.ts";
import { createPools } from "#shared/catalog/pools.ts";
import { videoDialectNames, type VideoDialectName } from "#shared/catalog/video-dialects.ts";
import { startFakeVideos } from "#fake-provider/videos.ts";
import { type VideoBehaviour, videoPrompt } from "#fake-provider/videos-behaviour.ts";
import { createProviderRequests } from "./request.ts";
import { upstreamAt } from "../testing/upstream-at.ts";
import { providers } from "./index.ts";
import type { Job, PollResult, Provider, ProviderRequest, Submission } from "./provider.ts";

const fake = await startFakeVideos();
after(() => fake[Symbol.asyncDispose]());
const pools = createPools();
after(() => pools[Symbol.asyncDispose]());
const requestProvider = createProviderRequests(pools);
const job: Job = { model: "studio-1", prompt: "a tide pool", seconds: 8, size: "1280x720", reference: undefined };

/** A provider as it is reached at an address. */
type ReachedProvider = {
  submit: (job: Job) => Promise<Submission | string>;
  poll: (upstreamId: string) => Promise<PollResult | string>;
};

function reach(url: string, dialect: VideoDialectName, credential = "secret-of-the-studio"): ReachedProvider {
  const upstream = upstreamAt(url, { dialects: [dialect], credential });
  const provider: Provider = providers[dialect];
  const answerTo = async <T>(
    request: ProviderRequest,
    read: Provider["submit" | "poll"]["read"],
  ): Promise<T | string> => {
    const result = await requestProvider(upstream, request);
    return result.kind === "answer" ? (read(result.answer) as T) : result.kind;
  };
  return {
    submit: async (job) => {
      const request = provider.submit.write(job, credential);
      assert.ok("path" in request);
      return await answerTo(request, provider.submit.read);
    },
    poll: (upstreamId) => answerTo(provider.poll.write(upstreamId, credential), provider.poll.read),
  };
}

async function taken(reached: ReachedProvider, job: Job): Promise<string> {
  const submission = await reached.submit(job);
  assert.ok(typeof submission === "object" && submission.outcome === "accepted", JSON.stringify(submission));
  return submission.upstreamId;
}

for (const dialect of videoDialectNames) {
  const reached = reach(fake.url, dialect);
  const { locate } = providers[dialect];
  const scripted = (behaviour: VideoBehaviour): Job => ({ ...job, prompt: videoPrompt(behaviour) });

  describe(`${dialect}, a provider on a socket`, () => {
    test("takes a task as it was meant, tells how it goes, and keeps the file where it says", async () => {
      const reference = { content: Buffer.from("picture"), mediaType: "image/png" };
      const upstreamId = await taken(reached, { ...scripted({ polls: 2, bytes: 300 }), reference });
      const found = fake.jobs.find(({ id }) => id === upstreamId);
      assert.deepEqual([found?.model, found?.seconds, found?.size], [job.model, job.seconds, job.size]);
      assert.deepEqual([found?.hasReference, found?.prompt], [true, videoPrompt({ polls: 2, bytes: 300 })]);
      const polls = [await reached.poll(upstreamId), await reached.poll(upstreamId), await reached.poll(upstreamId)];
      const states = polls.map((poll) => (typeof poll === "string" ? poll : poll.state));
      const first = dialect === "openai-videos" ? "queued" : "in_progress";
      assert.deepEqual(states, [first, "in_progress", "completed"]);
      const end = polls.at(-1) as Extract<PollResult, { state: "completed" }>;
      const url = locate({ upstreamId, contentUrl: end.contentUrl, baseUrl: new URL(fake.url) }, "video");
      const headers = { authorization: "Bearer secret-of-the-studio", "x-goog-api-key": "secret-of-the-studio" };
      const file = await fetch(String(url), { headers });
      assert.equal((await file.arrayBuffer()).byteLength, 300);
    });

    const ends: [VideoBehaviour, string][] = [
      [{ end: "failed" }, dialect === "openai-videos" ? "video_generation_failed" : "INTERNAL"],
      [{ end: "filtered" }, dialect === "openai-videos" ? "moderation_blocked" : "content_policy_violation"],
    ];
    for (const [behaviour, code] of ends) {
      test(`${behaviour.end} is failed with ${code}`, async () => {
        const poll = await reached.poll(await taken(reached, scripted({ ...behaviour, polls: 0 })));
        assert.ok(typeof poll === "object" && poll.state === "failed");
        assert.deepEqual([poll.code, poll.message !== ""], [code, true]);
      });
    }

    const refusals: [VideoBehaviour["submit"], RefusalReason, number][] = [
      ["reject", RefusalReason.REJECTED, 0],
      ["rate", RefusalReason.RATE, 7],
      ["account", RefusalReason.ACCOUNT, 0],
      ["unavailable", RefusalReason.UNAVAILABLE, 0],
      ["error", RefusalReason.UNKNOWN, 0],
      ["garbage", RefusalReason.UNKNOWN, 0],
    ];
    for (const [submit, reason, retryAfterSeconds] of refusals) {
      test(`a submission that ends in ${submit} is refused with ${reason}`, async () => {
        const submission = await reached.submit(scripted({ submit: submit ?? "accept" }));
        assert.ok(typeof submission === "object" && submission.outcome === "refused");
        assert.deepEqual([submission.reason, submission.retryAfterSeconds], [reason, retryAfterSeconds]);
      });
    }

    for (const submit of ["cut", "accept-then-cut"] as const) {
      test(`a submission that ends in ${submit} is silence`, async () => {
        assert.equal(await reached.submit(scripted({ submit })), "silent");
      });
    }

    test("a task that is not known is missing; a fault is no answer, or none at all", async () => {
      const upstreamId = await taken(reached, scripted({ pollFaults: [500, 0, 429], lost: true }));
      const polls = [await reached.poll(upstreamId), await reached.poll(upstreamId)];
      polls.push(await reached.poll(upstreamId), await reached.poll(upstreamId));
      assert.deepEqual(
        polls.map((poll) => (typeof poll === "string" ? poll : poll.state)),
        ["unanswered", "silent", "unanswered", "missing"],
      );
      assert.equal(typeof polls[2] === "object" && polls[2].state === "unanswered" && polls[2].retryAfterSeconds, 7);
    });
  });
}

describe("a provider that nobody here wrote", () => {
  const mock = new LLMock({ port: 0, host: "127.0.0.1", auth: { apiKeys: ["demo"] } });
  mock.onVideo("a running fox", { video: { id: "video_running", status: "processing" } });
  mock.onVideo("a finished fox", {
    video: { id: "video_finished", status: "completed", url: "https://x.example/fox" },
  });
  mock.onVideo("a broken fox", { video: { id: "video_broken", status: "failed", error: "No fox." } });
  const started = mock.start();
  after(() => mock.stop());

  test("OpenAI's API: submitted, running under another word, completed, failed, unknown, no credential", async () => {
    await started;
    const reached = reach(mock.url, "openai-videos", "demo");
    const pollAfter = async (prompt: string) => reached.poll(await taken(reached, { ...job, prompt }));
    assert.deepEqual(await pollAfter("a running fox"), { state: "in_progress", progress: undefined });
    const end = { seconds: undefined, size: undefined, expiresAtMs: undefined, contentUrl: undefined };
    assert.deepEqual(await pollAfter("a finished fox"), { state: "completed", ...end });
    const failed = { state: "failed", code: "generation_failed", message: "The video generation failed" };
    assert.deepEqual(await pollAfter("a broken fox"), failed);
    assert.deepEqual(await reached.poll("video_unknown"), { state: "missing" });
    const refused = await reached.submit({ ...job, prompt: "" });
    assert.equal(
      typeof refused === "object" && refused.outcome === "refused" && refused.reason,
      RefusalReason.REJECTED,
    );
    const stranger = await reach(mock.url, "openai-videos", "another").submit({ ...job, prompt: "a running fox" });
    assert.equal(
      typeof stranger === "object" && stranger.outcome === "refused" && stranger.reason,
      RefusalReason.ACCOUNT,
    );
  });

  test("Veo: submitted, running, completed with an address, failed with a code", async () => {
    await started;
    const reached = reach(mock.url, "gemini-videos", "demo");
    const endOf = async (prompt: string): Promise<PollResult | string> => {
      const upstreamId = await taken(reached, { ...job, prompt });
      for (let polls = 0; polls < 10; polls += 1) {
        const poll = await reached.poll(upstreamId);
        if (typeof poll === "string" || poll.state !== "in_progress") return poll;
      }
      return "never";
    };
    const contentUrl = "https://x.example/fox";
    const end = { state: "completed", seconds: undefined, size: undefined, expiresAtMs: undefined, contentUrl };
    assert.deepEqual(await endOf("a finished fox"), end);
    assert.deepEqual(await endOf("a broken fox"), { state: "failed", code: "INVALID_ARGUMENT", message: "No fox." });
  });
});
