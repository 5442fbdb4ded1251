import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { parse } from "yaml";

/** Where the demo upstream answers, and where it makes videos. */
export type DemoUrls = { url: string; videosUrl: string };

type Offer = { upstream: string; models: string };

const head = `# The models that are offered, where they run, and what they cost in USD per 1,000,000 units.
# Made by \`npm start\`. Change it while the stack runs: the relay follows the file. An edited file is kept.
`;

// https://platform.openai.com/docs/deprecations
const endedSora = `  # OpenAI has announced the end of its videos for 2026-09-24, so none is offered.
  # Another provider may speak the same API: give it an upstream with the dialect openai-videos, and a model such as
  # sora-2:
  #   owned_by: openai
  #   upstreams: [{ name: THAT_UPSTREAM }]
  #   video: { seconds: [4, 8, 12], sizes: [720x1280, 1280x720] }
  #   price: { version: openai-1, media_ms: "100.00" }
`;

// 10 USD per 1,000 web searches (developers.openai.com/api/docs/pricing,
// platform.claude.com/docs/en/about-claude/pricing); agents ask for the tool by default.
// A model that does not reason pays 25 for the older web_search_preview.
const searchPrice = `web_searches: "10000.00"`;
const previewSearchPrice = `web_searches: "25000.00"`;

const openAi: Offer = {
  upstream: `  openai:
    base_url: https://api.openai.com
    dialects:
      - openai-chat
      - openai-responses
      - openai-compact
      - openai-embeddings
      - openai-completions
      - openai-images
      - openai-image-edits
      - openai-speech
      - openai-transcriptions
      - openai-translations
      - openai-realtime
    responses_websocket: true
    credential: { env: OPENAI_API_KEY }
`,
  models: `  gpt-4.1-mini:
    owned_by: openai
    upstreams: [{ name: openai }]
    context_tokens: 1047576
    max_output_tokens: 32768
    price:
      version: openai-1
      input_tokens: "0.40"
      cache_read_tokens: "0.10"
      output_tokens: "1.60"
      ${previewSearchPrice}
  gpt-5-mini:
    owned_by: openai
    upstreams: [{ name: openai }]
    context_tokens: 400000
    max_output_tokens: 128000
    price:
      version: openai-1
      input_tokens: "0.25"
      cache_read_tokens: "0.025"
      output_tokens: "2.00"
      ${searchPrice}
  gpt-5:
    owned_by: openai
    upstreams: [{ name: openai }]
    context_tokens: 400000
    max_output_tokens: 128000
    price:
      version: openai-1
      input_tokens: "1.25"
      cache_read_tokens: "0.125"
      output_tokens: "10.00"
      ${searchPrice}
  text-embedding-3-small:
    owned_by: openai
    upstreams: [{ name: openai }]
    dialects: [openai-embeddings]
    price: { version: openai-1, input_tokens: "0.02" }
  gpt-3.5-turbo-instruct:
    owned_by: openai
    upstreams: [{ name: openai }]
    dialects: [openai-completions]
    context_tokens: 4096
    max_output_tokens: 4096
    price: { version: openai-1, input_tokens: "1.50", output_tokens: "2.00" }
  gpt-image-1:
    owned_by: openai
    upstreams: [{ name: openai }]
    dialects: [openai-images, openai-image-edits]
    price: { version: openai-1, input_tokens: "5.00", image_input_tokens: "10.00", image_output_tokens: "40.00" }
  tts-1:
    owned_by: openai
    upstreams: [{ name: openai }]
    dialects: [openai-speech]
    price: { version: openai-1, characters: "15.00" }
  gpt-realtime:
    owned_by: openai
    upstreams: [{ name: openai }]
    dialects: [openai-realtime]
    context_tokens: 32000
    max_output_tokens: 4096
    price:
      version: openai-1
      input_tokens: "4.00"
      cache_read_tokens: "0.50"
      output_tokens: "16.00"
      audio_input_tokens: "32.00"
      audio_output_tokens: "64.00"
      image_input_tokens: "5.00"
  whisper-1:
    owned_by: openai
    upstreams: [{ name: openai }]
    dialects: [openai-transcriptions, openai-translations]
    price: { version: openai-1, media_ms: "0.10" }
${endedSora}`,
};

const anthropic: Offer = {
  upstream: `  anthropic:
    base_url: https://api.anthropic.com
    dialects: [anthropic-messages]
    credential: { env: ANTHROPIC_API_KEY }
`,
  models: ["claude-haiku-4-5 1.00 0.10 1.25 2.00 5.00", "claude-sonnet-4-5 3.00 0.30 3.75 6.00 15.00"]
    .map((row) => row.split(" "))
    .map(
      ([name, input, read, write5m, write1h, output]) => `  ${name}:
    owned_by: anthropic
    upstreams: [{ name: anthropic }]
    context_tokens: 200000
    max_output_tokens: 64000
    price:
      version: anthropic-1
      input_tokens: "${input}"
      cache_read_tokens: "${read}"
      cache_write_5m_tokens: "${write5m}"
      cache_write_1h_tokens: "${write1h}"
      output_tokens: "${output}"
      ${searchPrice}
`,
    )
    .join(""),
};

// Models of videos come and go faster than this file.
const veoExample = `  # Gemini's API makes videos too: offer a model that it lists now, at a price of yours, such as
  # veo-3.1-generate-preview:
  #   owned_by: google
  #   upstreams: [{ name: gemini }]
  #   video: { seconds: [8, 6, 4], sizes: [1280x720, 720x1280] }
  #   price: { version: gemini-1, media_ms: "400.00" }
`;

const gemini: Offer = {
  upstream: `  gemini:
    base_url: https://generativelanguage.googleapis.com
    dialects: [gemini-generate, gemini-videos]
    credential: { env: GEMINI_API_KEY }
`,
  models: ["gemini-2.5-flash 0.30 0.03 1.00 2.50", "gemini-2.5-pro 2.50 0.25 2.50 15.00"]
    .map((row) => row.split(" "))
    .map(
      ([name, input, read, audio, output]) => `  ${name}:
    owned_by: google
    upstreams: [{ name: gemini }]
    quirks: [reasoning-in-total]
    context_tokens: 1048576
    max_output_tokens: 65536
    price:
      version: gemini-1
      input_tokens: "${input}"
      cache_read_tokens: "${read}"
      audio_input_tokens: "${audio}"
      output_tokens: "${output}"
`,
    )
    .concat(veoExample)
    .join(""),
};

const demoModels = `  demo-chat:
    owned_by: demo
    upstreams: [{ name: demo }]
    context_tokens: 128000
    max_output_tokens: 16384
    reserve_output_tokens: 4096
    price:
      version: demo-1
      input_tokens: "0.15"
      output_tokens: "0.60"
      cache_read_tokens: "0.075"
      ${searchPrice}
  demo-converted:
    owned_by: demo
    upstreams: [{ name: demo-gemini }]
    context_tokens: 128000
    max_output_tokens: 16384
    price: { version: demo-1, input_tokens: "0.15", output_tokens: "0.60", cache_read_tokens: "0.075" }
  demo-embedding:
    owned_by: demo
    upstreams: [{ name: demo }]
    dialects: [openai-embeddings]
    price: { version: demo-1, input_tokens: "0.02" }
  demo-completion:
    owned_by: demo
    upstreams: [{ name: demo }]
    dialects: [openai-completions]
    context_tokens: 4096
    max_output_tokens: 4096
    price: { version: demo-1, input_tokens: "1.50", output_tokens: "2.00" }
  demo-image:
    owned_by: demo
    upstreams: [{ name: demo }]
    dialects: [openai-images, openai-image-edits]
    price: { version: demo-1, input_tokens: "5.00", image_output_tokens: "40.00" }
  demo-voice:
    owned_by: demo
    upstreams: [{ name: demo }]
    dialects: [openai-speech]
    price: { version: demo-1, characters: "15.00" }
  demo-realtime:
    owned_by: demo
    upstreams: [{ name: demo }]
    dialects: [openai-realtime]
    context_tokens: 32000
    max_output_tokens: 4096
    price:
      version: demo-1
      input_tokens: "4.00"
      cache_read_tokens: "0.40"
      output_tokens: "16.00"
      audio_input_tokens: "32.00"
      audio_output_tokens: "64.00"
      image_input_tokens: "5.00"
  demo-moderation:
    owned_by: demo
    upstreams: [{ name: demo }]
    dialects: [openai-moderations]
    price: { version: demo-1, requests: "10.00" }
  demo-transcription:
    owned_by: demo
    upstreams: [{ name: demo, model: whisper-demo }]
    dialects: [openai-transcriptions, openai-translations]
    price: { version: demo-1, media_ms: "0.10" }
  demo-video:
    owned_by: demo
    upstreams: [{ name: demo-videos }]
    video: { seconds: [4, 8, 12], sizes: [720x1280, 1280x720, 1024x1792, 1792x1024] }
    price:
      version: demo-1
      media_ms: "100.00"
      variants: [{ size: 1024x1792, media_ms: "300.00" }, { size: 1792x1024, media_ms: "300.00" }]
`;

const demoOffer = ({ url, videosUrl }: DemoUrls): Offer => ({
  upstream: `  demo:
    base_url: ${url}
    dialects:
      - openai-chat
      - openai-responses
      - openai-compact
      - anthropic-messages
      - openai-embeddings
      - openai-completions
      - openai-images
      - openai-image-edits
      - openai-speech
      - openai-moderations
      - openai-transcriptions
      - openai-translations
      - openai-realtime
    responses_websocket: true
    credential: { env: DEMO_API_KEY }
  demo-gemini:
    base_url: ${url}
    dialects: [gemini-generate]
    credential: { env: DEMO_API_KEY }
  demo-videos:
    base_url: ${videosUrl}
    dialects: [openai-videos]
    credential: { env: DEMO_API_KEY }
`,
  models: demoModels,
});

const offersByKey = { OPENAI_API_KEY: openAi, ANTHROPIC_API_KEY: anthropic, GEMINI_API_KEY: gemini };

const offersOf = (environment: NodeJS.ProcessEnv): Offer[] =>
  Object.entries(offersByKey).flatMap(([variable, offer]) => (environment[variable] ? [offer] : []));

/** Whether the environment names a provider key, so that no demo upstream is needed. */
export function hasProviderKey(environment: NodeJS.ProcessEnv): boolean {
  return offersOf(environment).length > 0;
}

/** The catalog for the providers whose keys are in the environment, or for the demo upstream when there are none. */
export function catalogFor(environment: NodeJS.ProcessEnv, demo: DemoUrls): string {
  const providers = offersOf(environment);
  const offers = providers.length > 0 ? providers : [demoOffer(demo)];
  const note = providers.length > 0 ? "# Prices may have changed: compare them with the provider's list.\n" : "";
  const upstreams = offers.map(({ upstream }) => upstream).join("");
  return `${head}${note}upstreams:\n${upstreams}models:\n${offers.map(({ models }) => models).join("")}`;
}

export type WrittenCatalog = { hash: string; isEdited: boolean };

/** Writes the catalog unless somebody has edited the one that is there; `lastHash` is of what was last written. */
export async function writeCatalog(file: string, text: string, lastHash: string | undefined): Promise<WrittenCatalog> {
  const isEdited = existsSync(file) && hashOf(readFileSync(file, "utf8")) !== lastHash;
  if (isEdited) return { hash: lastHash ?? "", isEdited };
  await writeFile(file, text);
  return { hash: hashOf(text), isEdited };
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

export type ExampleModel = { model: string; dialect: "openai-chat" | "anthropic-messages" };

type Shape = {
  upstreams?: Record<string, { dialects?: string[] }>;
  models?: Record<string, { dialects?: string[]; upstreams?: { name: string }[]; video?: object }>;
};

/** A model that makes videos, to show a second call. */
export function exampleVideoModel(catalogText: string): string | undefined {
  const { models = {} } = parse(catalogText) as Shape;
  return Object.keys(models).find((name) => models[name]?.video !== undefined);
}

/** A model to show in the first call: one that speaks chat when there is one. */
export function exampleModel(catalogText: string): ExampleModel | undefined {
  const { upstreams = {}, models = {} } = parse(catalogText) as Shape;
  const speaks = (model: string, dialect: string): boolean => {
    const { dialects = [dialect], upstreams: routes = [] } = models[model] ?? {};
    return dialects.includes(dialect) && routes.some(({ name }) => upstreams[name]?.dialects?.includes(dialect));
  };
  for (const dialect of ["openai-chat", "anthropic-messages"] as const) {
    const model = Object.keys(models).find((name) => speaks(name, dialect));
    if (model) return { model, dialect };
  }
  // Reached from chat by conversion.
  const converted = Object.keys(models).find((name) => speaks(name, "gemini-generate"));
  return converted === undefined ? undefined : { model: converted, dialect: "openai-chat" };
}
