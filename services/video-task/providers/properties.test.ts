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
          const { path } = provider.look.write(read.upstreamId, "credential");
          assert.ok(path.length < 1_000);
          assert.equal(new URL(path, "https://x.example").pathname, path, "no step up, no query");
        }),
        settings,
      );
    });

    test("whatever a look finds is of one kind, with texts that a database takes and numbers in their bounds", () => {
      fc.assert(
        fc.property(answers, (answer) => {
          const look = provider.look.read(answer);
          const isAnswered = answer.status >= 200 && answer.status < 300;
          if (!isAnswered) return assert.ok(look.state === "missing" || look.state === "unanswered");
          if (look.state === "failed") {
            assert.ok(look.message !== "" && look.message.length <= 500 && /^[\w.-]{1,100}$/.test(look.code));
            assert.ok(look.message.isWellFormed() && !look.message.includes("\0"));
          }
          if (look.state === "in_progress" && look.progress !== undefined)
            assert.ok(Number.isInteger(look.progress) && look.progress >= 0 && look.progress <= 100);
          if (look.state !== "completed") return;
          assert.ok(look.seconds === undefined || (look.seconds > 0 && look.seconds <= 86_400));
          assert.ok(look.expiresAtMs === undefined || new Date(look.expiresAtMs).toISOString().length === 24);
          assert.ok(look.contentUrl === undefined || URL.canParse(look.contentUrl));
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
    const look = providers["gemini-videos"].look.read({ status: 200, body, retryAfterSeconds: undefined });
    assert.equal(look.state, "failed");
  }
});
