import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import type { Units, UsageBucket } from "#shared/money/pricing.ts";
import * as messages from "../dialects/anthropic-messages/usage.ts";
import { emptyTally } from "../dialects/dialect.ts";
import * as gemini from "../dialects/gemini-generate/usage.ts";
import { readUsage as readImagesUsage } from "../dialects/openai-images/usage.ts";
import * as transcriptions from "../dialects/openai-transcriptions/usage.ts";
import * as chat from "../dialects/openai-shared/usage.ts";
import { tallyReaderOf } from "../dialects/testing/reading.ts";
import { typeFields } from "../testing/declared-types.ts";
import * as tables from "../testing/usage-fields.ts";

const modules = join(import.meta.dirname, "../../../node_modules");
const openai = "openai/resources";
const anthropic = "@anthropic-ai/sdk/resources";

/** Where a provider's types say what it tells, by file and type, and the field under which the type stands. */
type Source = { file: string; type: string; under?: string };
type Reader = (told: object) => Units;

const units = (usage: Units | undefined): Units => usage ?? {};
const ofTally = (tally = emptyTally()): Units => ({ ...tally.counted, ...tally.usage });
const readResponse = (fields: object): Units => {
  const usage = { input_tokens: 1_000, output_tokens: 1_000 };
  return ofTally(tallyReaderOf("openai-responses")({ output: [], usage, ...fields }));
};
const drawing = { type: "image_generation_call", svg_usage: { model: "m", output_tokens: 100 } };

// A table with the types that it must cover, a usage to which single fields are added, and who reads it.
const rows: [name: string, table: tables.FieldTable, sources: Source[], base: object, read: Reader][] = [
  [
    "chat",
    tables.chatUsage,
    [{ file: `${openai}/completions.d.ts`, type: "CompletionUsage" }],
    { prompt_tokens: 1_000, completion_tokens: 1_000 },
    (told) => units(chat.readUsage(told)),
  ],
  [
    "chat, beyond OpenAI's types",
    tables.chatExtraUsage,
    [],
    { prompt_tokens: 1_000, completion_tokens: 1_000, prompt_tokens_details: { cache_write_tokens_details: {} } },
    (told) => units(chat.readUsage(told)),
  ],
  [
    "chat of Perplexity",
    tables.researchUsage,
    [],
    { prompt_tokens: 1_000, completion_tokens: 1_000, total_tokens: 2_000, num_search_queries: 1 },
    (told) => units(chat.readUsage(told)),
  ],
  [
    "chat of Sakana",
    tables.orchestratedUsage,
    [],
    { prompt_tokens: 1_000, completion_tokens: 1_000, prompt_tokens_details: { orchestration_input_tokens: 100 } },
    (told) => units(chat.readUsage(told)),
  ],
  [
    "responses of Sakana",
    tables.orchestratedResponsesUsage,
    [],
    { input_tokens: 1_000, output_tokens: 1_000, input_tokens_details: { orchestration_input_tokens: 100 } },
    (usage) => readResponse({ usage }),
  ],
  [
    "responses, beyond OpenAI's types",
    tables.responsesExtraUsage,
    [],
    { input_tokens: 1_000, output_tokens: 1_000 },
    (usage) => readResponse({ usage }),
  ],
  [
    "responses",
    tables.responsesUsage,
    [
      { file: `${openai}/responses/responses.d.ts`, type: "ResponseUsage" },
      { file: `${openai}/beta/responses/responses.d.ts`, type: "BetaResponseUsage" },
    ],
    { input_tokens: 1_000, output_tokens: 1_000 },
    (usage) => readResponse({ usage }),
  ],
  [
    "tools of responses",
    tables.responsesToolUsage,
    [{ file: `${openai}/responses/responses.d.ts`, type: "Response.ToolUsage" }],
    { image_gen: { input_tokens: 100, output_tokens: 100 } },
    (tool_usage) => readResponse({ tool_usage }),
  ],
  [
    "items of responses",
    tables.responsesItemUsage,
    [
      {
        file: `${openai}/responses/responses.d.ts`,
        type: "ResponseOutputItem.ImageGenerationCall.SvgUsage",
        under: "svg_usage",
      },
    ],
    drawing,
    (item) => readResponse({ output: [item] }),
  ],
  [
    "messages",
    tables.messagesUsage,
    [
      ...["Usage", "MessageDeltaUsage"].map((type) => ({ file: `${anthropic}/messages/messages.d.ts`, type })),
      ...["BetaUsage", "BetaMessageDeltaUsage"].map((type) => ({
        file: `${anthropic}/beta/messages/messages.d.ts`,
        type,
      })),
    ],
    { output_tokens: 1_000 },
    (told) => units(messages.readUsage(told)),
  ],
  [
    "images",
    tables.imagesUsage,
    [
      { file: `${openai}/images.d.ts`, type: "ImagesResponse.Usage" },
      { file: `${openai}/images.d.ts`, type: "ImageGenCompletedEvent.Usage" },
    ],
    { input_tokens: 1_000, output_tokens: 1_000 },
    (told) => units(readImagesUsage(told)),
  ],
  [
    "images, beside their usage",
    tables.imagesAnswerUsage,
    [{ file: `${openai}/images.d.ts`, type: "ImagesResponse.SvgUsage", under: "svg_usage" }],
    { data: [], usage: { input_tokens: 1, output_tokens: 1 }, svg_usage: drawing.svg_usage },
    (body) => ofTally(tallyReaderOf("openai-images")(body)),
  ],
  [
    "embeddings",
    tables.embeddingsUsage,
    [{ file: `${openai}/embeddings.d.ts`, type: "CreateEmbeddingResponse.Usage" }],
    {},
    (usage) => ofTally(tallyReaderOf("openai-embeddings")({ data: [], usage })),
  ],
  [
    "transcriptions",
    tables.transcriptionsUsage,
    ["Transcription.Tokens", "Transcription.Duration"].map((type) => ({
      file: `${openai}/audio/transcriptions.d.ts`,
      type,
    })),
    { input_tokens: 1_000 },
    (told) => units(transcriptions.readUsage(told)),
  ],
  [
    "gemini",
    tables.geminiUsage,
    [{ file: "@google/genai/dist/genai.d.ts", type: "GenerateContentResponseUsageMetadata" }],
    { promptTokenCount: 1_000, candidatesTokenCount: 1_000 },
    (told) => units(gemini.readUsage(told)),
  ],
];

/** A usage in which one field more is told. */
function withField(base: object, path: string, value: number): object {
  const [name = "", ...rest] = path.split(".");
  if (rest.length === 0) return { ...base, [name]: value };
  // Of the runs of a model the first is one that is larger than what the top level tells.
  if (name === "iterations")
    return { ...base, [name]: [withField({ input_tokens: 5_000, output_tokens: 1_000 }, rest.join("."), value)] };
  const inner = (base as Record<string, object | undefined>)[name] ?? {};
  return { ...base, [name]: withField(inner, rest.join("."), value) };
}

for (const [name, table, sources, base, read] of rows) {
  for (const { file, type, under } of sources) {
    test(`every field of ${type} is in the table: ${name}`, () => {
      const paths = typeFields(join(modules, file), type).map((path) =>
        under === undefined ? path : `${under}.${path}`,
      );
      assert.ok(paths.length > 1, "the type has fields");
      const unknown = paths.filter((path) => !Object.hasOwn(table, path));
      assert.deepEqual(unknown, [], "say in testing/usage-fields.ts what becomes of it");
    });
  }

  const filled = Object.entries(table).flatMap(([path, use]) => ("bucket" in use ? [[path, use.bucket] as const] : []));
  test(`every field that fills a bucket does: ${name}`, () => {
    for (const [path, bucket] of filled) {
      const [less, more] = [50, 77].map((count): bigint => read(withField(base, path, count))[bucket] ?? 0n);
      assert.notEqual(less, more, `${path} fills ${bucket satisfies UsageBucket}`);
    }
  });

  test(`a field that another counts names one: ${name}`, () => {
    for (const use of Object.values(table)) {
      if ("countedBy" in use) assert.ok("bucket" in (table[use.countedBy] ?? {}), use.countedBy);
    }
  });
}
