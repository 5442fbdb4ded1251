/**
 * What providers keep under an id for the account that they serve, which is the operator's: whoever knows an id would
 * get at it, whichever caller made it. `response` covers the items of a response, too.
 */
export const stateKinds = [
  "response",
  "conversation",
  "prompt",
  "file",
  "vector_store",
  "container",
  "skill",
  "cached_content",
  "audio",
  "voice",
  "tunnel",
] as const;

export type StateKind = (typeof stateKinds)[number];

// openai 7.55, @anthropic-ai/sdk 1.14, and what servers of the same formats (xAI, Mistral, Google) add.
export const kindOfName = new Map<string, StateKind>([
  ["previous_response_id", "response"],
  ["comparison_response_id", "response"],
  ["previous_message_id", "response"],
  ["approval_request_id", "response"],
  ["conversation", "conversation"],
  ["prompt", "prompt"],
  ["file_id", "file"],
  ["file_ids", "file"],
  ["vector_store_id", "vector_store"],
  ["vector_store_ids", "vector_store"],
  ["collection_ids", "vector_store"],
  ["library_ids", "vector_store"],
  ["container", "container"],
  ["container_id", "container"],
  ["skill_id", "skill"],
  ["cached_content", "cached_content"],
  ["cachedcontent", "cached_content"],
  ["audio", "audio"],
  ["voice", "voice"],
  ["tunnel_id", "tunnel"],
]);

/** Voices of an account's own, which OpenAI names so; any other text is the name of one that everybody may use. */
export const isVoiceId = (text: string): boolean => text.startsWith("voice_");

/** Fields of the top only: below it the same names are of the caller's own. */
export const namesOfTop = new Set(["conversation", "prompt"]);

export const nameLandmarks = [...kindOfName.keys()]
  .filter((name) => !namesOfTop.has(name) && name !== "audio")
  .map((name) => Buffer.from(`"${name}"`));
export const itemLandmarks = ["id", "item_reference"].map((name) => Buffer.from(`"${name}"`));
export const audioLandmarks = [Buffer.from('"audio"')];

/** Fields that hold addresses. */
export const addressNames = new Set(["url", "uri", "file_url", "file_uri", "fileuri", "image_url", "video_url"]);
/**
 * Addresses that a provider opens with the operator's own rights: buckets of its cloud (Vertex AI, Bedrock), files of
 * the machine that a model runs on (vLLM), what was uploaded to it (Google's files have addresses for ids).
 */
const ownAddress = /^(?:file:|(?!https?:)[a-z][\w+.-]*:\/\/|https?:\/\/generativelanguage\.googleapis\.com\/)/i;

const space = 32;

/** Whether an address is such a one to readers of addresses, who skip blanks in front, and line ends anywhere. */
export function isOwnAddress(address: string): boolean {
  let start = 0;
  while (address.charCodeAt(start) <= space) start += 1;
  // Blanks alone, as far as it was read: nobody writes that.
  return (start > 0 && start === address.length) || ownAddress.test(address.slice(start).replaceAll(/[\t\n\r]/g, ""));
}
export const addressLandmarks = ["gs:", "s3:", "file:", "https://generativelanguage."].map((start) =>
  Buffer.from(`"${start}`),
);

/** What is looked for in all of a body, so that one without ids costs nothing more. */
export const stateLandmarks = [...nameLandmarks, ...itemLandmarks, ...audioLandmarks, ...addressLandmarks];
