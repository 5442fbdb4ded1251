import assert from "node:assert/strict";
import { test } from "node:test";
import type { Model } from "../catalog/models.ts";
import { costlyNames } from "../dialects/costly-fields.ts";
import type { DialectName } from "../dialects/dialect.ts";
import { dialects } from "../dialects/index.ts";
import { CallFailure } from "../failures.ts";
import { readEnvelope } from "../http/read.ts";
import { modelOf } from "../testing/fakes.ts";
import { refuseUnpriced } from "./refuse-unpriced.ts";

const usd = 1_000_000_000n;
const tokens = { inputTokens: usd, outputTokens: 2n * usd };
const byImage = modelOf({ prices: { ...tokens, images: 40_000n * usd } });

const bodies: Partial<Record<DialectName, object>> = {
  "openai-chat": { messages: [] },
  "openai-responses": { input: "x" },
  "anthropic-messages": { messages: [], max_tokens: 5 },
  "openai-completions": { prompt: "x" },
  "openai-embeddings": { input: "x" },
  "openai-images": { prompt: "x" },
  "openai-speech": { input: "x", voice: "alloy" },
};

const headers = { "provider-version": "2023-06-01" };

/** Why a request is refused; undefined when it is not. */
function refusalOf(fields: object, name: DialectName = "openai-chat", model: Model = modelOf()): string | undefined {
  const body = Buffer.from(JSON.stringify({ model: "m", ...bodies[name], ...fields }));
  try {
    refuseUnpriced(readEnvelope(body, dialects[name], headers), model, dialects[name]);
    return undefined;
  } catch (error) {
    if (error instanceof CallFailure) return error.failure.detail;
    throw error;
  }
}

const unpriced = (field: string) => `field ${field} has no price for this model and cannot be used`;

const everywhere: Record<string, unknown> = {
  models: ["dearer"],
  model_list: [{ model_name: "dearer" }],
  provider: { sort: "throughput" },
  context_window_fallbacks: ["dearer"],
  content_policy_fallbacks: ["dearer"],
  plugins: [{ id: "web" }],
  enable_search: true,
  enable_code_interpreter: true,
  extra_body: { service_tier: "priority" },
  use_beam_search: true,
  num_beams: 8,
  num_return_sequences: 4,
  data_sources: [{ type: "azure_search", parameters: { index_name: "of somebody" } }],
  agent: { name: "helper" },
  agent_reference: { name: "helper", type: "agent_reference" },
  preset: "mine",
  prompt_id: "of somebody",
  api_base: "https://elsewhere.example",
  lora: [{ id: 0, scale: 1 }],
  lora_path: "dearer",
  adapter_id: "somebody/weights",
  adapter_source: "hub",
  safety_model: "guard",
  user_config: { model_list: [] },
  custom_llm_provider: "bedrock",
  extra_headers: { "anthropic-beta": "fast" },
  num_retries: 9,
  priority: -1,
  kv_transfer_params: { remote_host: "10.0.0.1" },
  bootstrap_host: "10.0.0.1",
  compound_custom: { models: { answering_model: "dearer" } },
  session_params: { id: "of somebody" },
};

test("fields of other servers by which a call costs more than is told are refused by name", () => {
  for (const dialect of ["openai-chat", "openai-completions", "openai-embeddings", "anthropic-messages"] as const) {
    for (const [field, value] of Object.entries(everywhere)) {
      if (dialect === "anthropic-messages" && field === "content_policy_fallbacks") continue;
      assert.equal(refusalOf({ [field]: value }, dialect), unpriced(field), dialect);
    }
  }
});

test("searches and caches that are billed beside the answer are refused where they are known", () => {
  assert.equal(refusalOf({ web_search: { enable: true } }), unpriced("web_search"));
  assert.equal(refusalOf({ caching: { type: "enabled" } }, "openai-responses"), unpriced("caching"));
  assert.equal(refusalOf({ num_retries: 0, priority: 0 }), undefined);
});

test("a tool whose type is written twice, once as a lenient reader takes it, is refused", () => {
  for (const name of ["Type", "TYPE", "type\0", "ty\u0000"]) {
    const isRead = name !== "ty\u0000";
    const tools = [{ type: "function", function: { name: "f" }, [name]: "web_search" }];
    assert.equal(refusalOf({ tools }) !== undefined, isRead, JSON.stringify(name));
  }
  const inner = [{ type: "namespace", name: "n", Tools: [{ type: "code_interpreter" }] }];
  assert.match(refusalOf({ tools: inner }, "openai-responses") ?? "", /a tool of type ""/);
});

test("counts of a stream cannot be switched off by a name that a lenient server takes for the one that asks", () => {
  for (const name of ["Include_Usage", "includeUsage", "INCLUDE_USAGE"]) {
    const stream_options = { include_usage: true, [name]: false };
    assert.match(refusalOf({ stream: true, stream_options }) ?? "", /must be written include_usage/);
  }
  const twice =
    '{"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":false,"include_usage":true}}';
  const envelope = readEnvelope(Buffer.from(twice), dialects["openai-chat"], {});
  const sent = dialects["openai-chat"].prepareBody(envelope, "m").toString();
  assert.ok(sent.endsWith('"stream_options":{"include_usage":true}}'), sent);
});

test("nobody chooses whom the provider bills", () => {
  const billing_policy = { type: "billing_policy", bill_to: "user_profile" };
  assert.equal(refusalOf({ billing_policy }, "anthropic-messages"), unpriced("billing_policy"));
});

test("several agents to a response are the operator's to allow", () => {
  const of = (multi_agent: object) => refusalOf({ multi_agent }, "openai-responses");
  assert.equal(of({ enabled: true, max_concurrent_subagents: 3 }), unpriced("multi_agent"));
  assert.equal(of({ enabled: false }), undefined);
});

test("what asks for nothing passes", () => {
  for (const field of costlyNames.filter((name) => name !== "n" && !name.includes("search_"))) {
    for (const nothing of [null, false, "", [], {}]) assert.equal(refusalOf({ [field]: nothing }), undefined, field);
  }
});

test("fields that mean another thing in a dialect are left to it", () => {
  assert.equal(refusalOf({ speed: 0.25 }, "openai-speech"), undefined);
  assert.equal(refusalOf({ speed: "fast" }), unpriced("speed"));
  assert.equal(refusalOf({ speed: "standard" }), undefined);
  assert.equal(
    refusalOf({ speed: "fast", inference_geo: "us", fallbacks: [{ model: "b" }] }, "anthropic-messages"),
    undefined,
  );
  assert.equal(refusalOf({ inference_geo: "us" }), unpriced("inference_geo"));
  assert.equal(refusalOf({ fallbacks: ["dearer"] }), unpriced("fallbacks"));
  assert.equal(refusalOf({ best_of: 20 }, "openai-completions"), undefined, "counted");
  assert.equal(refusalOf({ background: "transparent" }, "openai-images"), undefined);
  assert.equal(refusalOf({ background: "true" }), unpriced("background"));
  for (const dialect of ["openai-chat", "openai-responses", "anthropic-messages"] as const) {
    assert.equal(refusalOf({ best_of: 20 }, dialect), unpriced("best_of"));
    assert.equal(refusalOf({ best_of: 1 }, dialect), undefined);
  }
  assert.equal(refusalOf({ n: 4 }), undefined, "held for");
  for (const dialect of ["openai-responses", "anthropic-messages"] as const) {
    assert.equal(refusalOf({ n: 4 }, dialect), unpriced("n"));
    assert.equal(refusalOf({ n: 1 }, dialect), undefined);
  }
});

test("an overlay may have Google's own settings, and nothing else", () => {
  const google = { thinking_config: { thinking_budget: 0 } };
  assert.equal(refusalOf({ extra_body: { google } }), undefined);
  assert.equal(refusalOf({ extra_body: { google, models: ["dearer"] } }), unpriced("extra_body"));
  assert.equal(refusalOf({ extra_body: { google: "x".repeat(5_000) } }), unpriced("extra_body"), "longer than is read");
});

test("names that a lenient server takes for one of them are refused", () => {
  for (const name of [
    "candidateCount",
    "PLUGINS",
    "Models",
    "nPredict",
    "maxNewTokens",
    "providerOptions",
    "Prediction",
  ]) {
    assert.match(refusalOf({ [name]: 4 }) ?? "", /must be written/, name);
  }
});

test("pictures by the image take no field that makes them larger or more; by tokens all are told", () => {
  for (const field of ["width", "height", "resolution", "image_size", "steps", "num_inference_steps", "num_images"]) {
    assert.equal(refusalOf({ [field]: 2_048 }, "openai-images", byImage), unpriced(field));
    assert.equal(refusalOf({ [field]: 2_048 }, "openai-images"), undefined);
    assert.equal(refusalOf({ [field]: 2_048 }, "openai-chat", byImage), undefined);
  }
  assert.equal(refusalOf({ num_images: 1 }, "openai-images", byImage), undefined);
});

test("a form names no sound that it does not bring", () => {
  const part = (name: string, value: string, file = "") =>
    `--b\r\nContent-Disposition: form-data; name="${name}"${file}\r\n\r\n${value}\r\n`;
  const sent = (more: string) =>
    Buffer.from(`${part("model", "m")}${part("file", "sound", '; filename="a.mp3"')}${more}--b--\r\n`);
  const dialect = dialects["openai-transcriptions"];
  const read = (more: string) =>
    readEnvelope(sent(more), dialect, { "content-type": "multipart/form-data; boundary=b" });
  const model = modelOf({ prices: { mediaMs: 100n } });
  refuseUnpriced(read(""), model, dialect);
  refuseUnpriced(read(part("url", "")), model, dialect);
  for (const more of [part("url", "https://sounds.example/10h.mp3"), part("url", "x", '; filename="u"')]) {
    assert.throws(() => refuseUnpriced(read(more), model, dialect), {
      failure: { name: "field_invalid", detail: unpriced("url") },
    });
  }
});

test("a tier needs a price at every endpoint, and tools are a list of objects", () => {
  for (const dialect of ["openai-chat", "openai-completions", "openai-embeddings"] as const) {
    assert.equal(refusalOf({ service_tier: "priority" }, dialect), unpriced('service_tier "priority"'));
    assert.equal(refusalOf({ service_tier: "auto" }, dialect), undefined);
  }
  for (const dialect of ["openai-chat", "openai-responses", "anthropic-messages"] as const) {
    for (const tools of [{ a: { type: "code_interpreter" } }, "code_interpreter", 1, true]) {
      assert.equal(refusalOf({ tools }, dialect), "field tools must be an array");
    }
    for (const item of [[{ type: "code_interpreter" }], "code_interpreter", 1]) {
      assert.match(refusalOf({ tools: [item] }, dialect) ?? "", /a tool of type "" in field tools/);
    }
  }
});

test("an answer that would be fetched later is refused, whatever the operator lets pass", () => {
  for (const deferred of [true, "true", 1]) {
    const detail = refusalOf({ deferred }, "openai-chat", modelOf({ passesUnpricedTools: true }));
    assert.match(detail ?? "", /field deferred must/);
  }
});

test("the operator may let them pass, or share what is his", () => {
  const passing = modelOf({ passesUnpricedTools: true });
  const sharing = modelOf({ sharedState: new Set(["prompt", "vector_store", "conversation"] as const) });
  const withFee = modelOf({ prices: { ...tokens, requests: usd } });
  const states = new Set(["data_sources", "agent", "agent_reference", "preset", "prompt_id", "session_params"]);
  for (const [field, value] of Object.entries(everywhere)) {
    const isState = states.has(field);
    assert.equal(refusalOf({ [field]: value }, "openai-chat", passing), isState ? unpriced(field) : undefined);
    assert.equal(refusalOf({ [field]: value }, "openai-chat", sharing), isState ? undefined : unpriced(field));
    const isCovered = field === "enable_search";
    assert.equal(refusalOf({ [field]: value }, "openai-chat", withFee), isCovered ? undefined : unpriced(field));
  }
});

test("a search before a picture is made needs a price as any other does", () => {
  const tools = [{ type: "web_search" }];
  const unpricedTool = 'a tool of type "web_search" in field tools has no price for this model and cannot be used';
  assert.equal(refusalOf({ tools }, "openai-images", byImage), unpricedTool);
  assert.equal(refusalOf({ tools: [] }, "openai-images", byImage), undefined);
  const searching = modelOf({ prices: { ...tokens, images: 40_000n * usd, webSearches: usd } });
  assert.equal(refusalOf({ tools }, "openai-images", searching), undefined);
});
