import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import { videoDialectNames } from "#shared/catalog/video-dialects.ts";
import { providers } from "./index.ts";
import type { ProviderAnswer } from "./provider.ts";

// What the providers look for, so that the arbitrary answers come near to those that mean something.
const names = "id name status done error response code message progress seconds expires_at details reason";
const veoNames =
  "generateVideoResponse generatedSamples video uri encodedVideo raiMediaFilteredCount raiMediaFilteredReasons";
const fields = fc.constantFrom(...`${names} ${veoNames} retryDelay __proto__ toString valueOf`.split(" "));
const plainWords = "completed failed queued in_progress video_1 models/m/operations/o operations/.. .. 7s INTERNAL";
const words = fc.constantFrom(...plainWords.split(" "), "https://x.example/y", "insufficient_quota", "\0", "\ud800");
const leaf = fc.oneof(words, fc.boolean(), fc.constant(null), fc.double(), fc.integer(), fc.string());
const body = fc.letrec<{ any: unknown }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    leaf,
    fc.dictionary(fields, tie("any"), { maxKeys: 6 }),
    fc.array(tie("any"), { maxLength: 3 }),
  ),
})).any;
const statuses = fc.oneof(fc.constantFrom(200, 404, 429), fc.integer({ min: 200, max: 599 }));
const wait = fc.option(fc.integer({ min: 0, max: 86_400 }), { nil: undefined });
const answers: fc.Arbitrary<ProviderAnswer> = fc.record({
  status: statuses,
  body: fc.oneof({ weight: 5, arbitrary: body }, { weight: 1, arbitrary: fc.jsonValue() }),
  retryAfterSeconds: wait,
});
const settings = { numRuns: 3_000 };

for (const dialect of videoDialectNames) {
  const provider = providers[dialect];
  describe(dialect, () => {
    test("no answer is taken for a task without an id that has its place in a path", () => {
      fc.assert(
        fc.property(answers, (answer) => {
          const read = provider.submit.read(answer);
          if (read.outcome === "refused") return assert.ok(read.retryAfterSeconds >= 0 && read.cause.length <= 600);
          assert.ok(answer.status >= 200 && answer.status < 300);
          const { path } = provider.poll.write(read.upstreamId, "credential");
          assert.ok(path.length < 1_000);
          assert.equal(new URL(path, "https://x.example").pathname, path, "no step up, no query");
        }),
        settings,
      );
    });

    test("whatever a poll finds is of one kind, with texts that a database takes and numbers in their bounds", () => {
      fc.assert(
        fc.property(answers, (answer) => {
          const poll = provider.poll.read(answer);
          const isAnswered = answer.status >= 200 && answer.status < 300;
          if (!isAnswered) return assert.ok(poll.state === "missing" || poll.state === "unanswered");
          if (poll.state === "failed") {
            assert.ok(poll.message !== "" && poll.message.length <= 500 && /^[\w.-]{1,100}$/.test(poll.code));
            assert.ok(poll.message.isWellFormed() && !poll.message.includes("\0"));
          }
          if (poll.state === "in_progress" && poll.progress !== undefined)
            assert.ok(Number.isInteger(poll.progress) && poll.progress >= 0 && poll.progress <= 100);
          if (poll.state !== "completed") return;
          assert.ok(poll.seconds === undefined || (poll.seconds > 0 && poll.seconds <= 86_400));
          assert.ok(poll.expiresAtMs === undefined || new Date(poll.expiresAtMs).toISOString().length === 24);
          assert.ok(poll.contentUrl === undefined || URL.canParse(poll.contentUrl));
        }),
        settings,
      );
    });
  });
}

test("an object in the place of a number is a failure like any other, though it cannot be made a number", () => {
  const stubborn = { valueOf: 0, toString: 0 };
  const filtered = { generateVideoResponse: { raiMediaFilteredCount: stubborn } };
  for (const body of [
    { done: true, error: { code: stubborn } },
    { done: true, response: filtered },
  ]) {
    const poll = providers["gemini-videos"].poll.read({ status: 200, body, retryAfterSeconds: undefined });
    assert.equal(poll.state, "failed");
  }
});
