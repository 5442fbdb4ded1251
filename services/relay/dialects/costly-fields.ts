import type { RequestBody } from "./json/request-body.ts";
import type { DialectName } from "./dialect.ts";
import type { StateKind } from "./state-names.ts";

// Fields that servers of these formats know beyond the formats, and by which a call costs its provider more, or does
// something else, than an answer tells. Nobody who pays by what is told may send them.

/** How a field is let through: by a price for each request, which covers searches, or by the operator's word alone. */
type Pass = "request-price" | "operator" | { sharedState: StateKind };

export type CostlyField = {
  names: readonly string[];
  pass: Pass;
  /** Whether it asks for something even where it is empty. */
  isSwitch?: true;
  /** Values that ask for what happens anyway, beside null, false and what is empty. */
  harmless?: readonly (string | number)[];
  /** What an object may have in it without harm. */
  harmlessMembers?: readonly string[];
  /** Where it counts; left out: everywhere. */
  dialects?: readonly DialectName[];
  /** Where it does not. */
  except?: readonly DialectName[];
  /** Whether only a price by the image leaves it open: tokens of images are told. */
  isOfImages?: true;
};

const images = ["openai-images", "openai-image-edits"] as const;
const sounds = ["openai-transcriptions", "openai-translations"] as const;
const oneAnswer = ["openai-responses", "openai-compact", "anthropic-messages"] as const;

const costlyFields: readonly CostlyField[] = [
  // Other models, and dearer providers of the same (https://openrouter.ai/docs/guides/routing/provider-selection,
  // https://vercel.com/docs/ai-gateway/provider-options, https://docs.litellm.ai/docs/proxy/reliability).
  {
    names: ["models", "model_list", "provider", "provider_options", "context_window_fallbacks", "api_base", "base_url"],
    pass: "operator",
  },
  // Weights beside the model's own, which some load from anywhere (https://docs.sglang.io/docs/advanced_features/lora,
  // https://github.com/predibase/lorax); a second model that checks what the first one writes (Together).
  { names: ["lora", "lora_path", "adapter_id", "adapter_source", "safety_model"], pass: "operator" },
  // What a proxy does instead of what it is set to do (LiteLLM): whom it calls, by which headers, how often.
  { names: ["user_config", "custom_llm_provider", "extra_headers"], pass: "operator" },
  { names: ["num_retries"], harmless: [0], pass: "operator" },
  // A place before others, and hosts that a server shall fetch its state from (vLLM, SGLang).
  { names: ["priority"], harmless: [0], pass: "operator" },
  { names: ["kv_transfer_params", "bootstrap_host"], pass: "operator" },
  // Whom Anthropic bills: the operator, or a customer of his that he has a profile of.
  { names: ["billing_policy"], pass: "operator" },
  // Messages have a field of this name, whose models answers name.
  { names: ["fallbacks", "content_policy_fallbacks"], pass: "operator", except: ["anthropic-messages"] },
  // Searches, and files that are read, for a fee that no answer tells (https://openrouter.ai/docs/guides/features/plugins).
  { names: ["plugins"], pass: "operator" },
  {
    names: ["web_search_options", "search_parameters"],
    isSwitch: true,
    pass: "request-price",
    dialects: ["openai-chat", "openai-responses", "openai-compact", "openai-completions"],
  },
  // Baidu's Qianfan.
  { names: ["web_search"], pass: "request-price", dialects: ["openai-chat"] },
  // Models and tools of a system of many (https://console.groq.com/docs/compound).
  { names: ["compound_custom"], pass: "operator" },
  // Agents beside the one that was asked, each of which reads and writes as much as it likes (OpenAI's beta).
  { names: ["multi_agent"], pass: "operator", dialects: ["openai-responses"] },
  // What is kept is billed by the hour (Volcengine).
  { names: ["caching"], pass: "operator", dialects: ["openai-chat", "openai-responses"] },
  // https://www.alibabacloud.com/help/en/model-studio/web-search
  { names: ["enable_search"], pass: "request-price" },
  { names: ["enable_code_interpreter"], pass: "operator" },
  // What Messages have taken out of them (API spec) has a price elsewhere, too. The speed of speech is another.
  { names: ["inference_geo"], harmless: ["global"], pass: "operator", except: ["anthropic-messages"] },
  {
    names: ["speed"],
    harmless: ["standard"],
    pass: "operator",
    except: ["anthropic-messages", "openai-speech"],
  },
  // Answers that are made and thrown away, or made beside the one that is told (vLLM, Text Generation Inference).
  { names: ["best_of"], harmless: [1], pass: "operator", except: ["openai-completions"] },
  { names: ["use_beam_search"], pass: "operator" },
  { names: ["num_beams", "num_return_sequences", "candidate_count"], harmless: [1], pass: "operator" },
  { names: ["n"], harmless: [1], pass: "operator", dialects: oneAnswer },
  // An answer that is fetched later is counted by nobody. Responses refuse it by themselves; images have a ground.
  { names: ["background"], pass: "operator", dialects: ["openai-chat", "openai-completions", "anthropic-messages"] },
  // What a proxy lays over the request (LiteLLM); Google's server has settings of its own there.
  { names: ["extra_body"], harmlessMembers: ["google"], pass: "operator" },
  // The operator's own data and settings, opened with his rights (Azure's data, agents of Azure's Foundry, presets of
  // OpenRouter, prompts of LiteLLM).
  { names: ["data_sources"], pass: { sharedState: "vector_store" } },
  { names: ["session_params"], pass: { sharedState: "conversation" } },
  { names: ["agent", "agent_reference", "agent_id", "preset", "prompt_id"], pass: { sharedState: "prompt" } },
  // More pixels, steps and pictures, by other servers' words (Together, Fireworks, xAI, Stable Diffusion's).
  {
    names: ["width", "height", "resolution", "image_size", "steps", "num_inference_steps"],
    pass: "operator",
    dialects: images,
    isOfImages: true,
  },
  {
    names: ["num_images", "num_images_per_prompt", "num_outputs", "batch_size", "batch_count", "samples"],
    harmless: [1],
    pass: "operator",
    dialects: images,
    isOfImages: true,
  },
  // Sound that nobody here measures (https://console.groq.com/docs/speech-to-text).
  {
    names: ["url", "file_url", "audio_url", "source_url", "cloud_storage_url"],
    pass: "operator",
    dialects: sounds,
  },
];

const byName = new Map<string, CostlyField>(
  costlyFields.flatMap((field) => field.names.map((name) => [name, field] as const)),
);
export const costlyNames: readonly string[] = [...byName.keys()];

function isSaid(value: unknown, { isSwitch, harmless = [], harmlessMembers = [] }: CostlyField): boolean {
  if (value === undefined || value === null || value === false || value === "" || value === "false") return false;
  if (isSwitch) return true;
  if (typeof value === "object") {
    return Object.entries(value).some(([name, inner]) => inner !== false && !harmlessMembers.includes(name));
  }
  return !harmless.some((one) => one === value || String(one) === value);
}

// A longer value says something.
const mostBytes = 4_096;

/** The value of a field; that it stands there where it is too long, or a file. */
function valueOf(body: RequestBody, name: string): unknown {
  const bytes = body.slice(name);
  if (bytes) return bytes.length > mostBytes ? true : (JSON.parse(bytes.toString()) as unknown);
  try {
    const text = body.read(name);
    return typeof text === "string" ? text : true;
  } catch {
    // Longer than is read, or given twice.
    return true;
  }
}

/** What a request asks for by a field that costs more than an answer tells; `lets` knows what passes all the same. */
export function findCostlyField(
  body: RequestBody,
  dialect: DialectName,
  lets: (field: CostlyField) => boolean,
): string | undefined {
  for (const name of body.names()) {
    const field = byName.get(name);
    if (!field || (field.dialects && !field.dialects.includes(dialect)) || field.except?.includes(dialect)) continue;
    if (!lets(field) && isSaid(valueOf(body, name), field)) return name;
  }
  return undefined;
}
