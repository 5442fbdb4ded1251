/** Why a call was refused, and what its owner can do about it. */
export type RefusalWords = { title: string; advice: string };

const again = "Wait as long as the header Retry-After says, then try again; official clients do so by themselves.";
const ownId = "Take the id from the answer to the submission, or from the list of videos.";

// By the names that relays and auth-quota give to reasons. A newer service may send names that are not here.
const reasons: Record<string, RefusalWords> = {
  key_stopped: { title: "The key is stopped", advice: "Activate it under Keys, or use another one." },
  key_expired: { title: "The key has expired", advice: "Set a later last day under Keys, or use another one." },
  key_deleted: { title: "The key is deleted", advice: "Create another key, and put it where this one is still used." },
  key_used_up: { title: "The key has used up its limit", advice: "Raise its limit under Keys." },
  key_address: {
    title: "The key is limited to other addresses",
    advice: "Call from one of them, or add the caller's address under Keys.",
  },
  key_invalid: { title: "The key does not work", advice: "Look under Keys what is wrong with it." },
  account_suspended: { title: "The account is suspended", advice: "Ask those who run the service." },
  balance: {
    title: "The balance, or what is left of the budget, is too low",
    advice: "Add credits, raise the budget, or ask for less: a smaller maximum of output tokens holds less money.",
  },
  key_limit: {
    title: "More than the key may still spend",
    advice: "Raise the key's limit under Keys, or ask for fewer output tokens.",
  },
  account_rate: {
    title: "Too many calls",
    advice: "Send fewer calls a minute, or fewer at the same time; wait a minute. What a key may is under Keys.",
  },
  ip_rate: { title: "Too many calls from one address", advice: again },
  model_unavailable: {
    title: "No such model for this key",
    advice: "Take a name from Models; if it is there, allow it for the key under Keys.",
  },
  wrong_endpoint: {
    title: "The model is not served at this endpoint",
    advice: "Call one of the endpoints that the answer names.",
  },
  invalid_json: {
    title: "The body is not valid JSON",
    advice: "Send one JSON object, in which no field stands twice.",
  },
  body_too_large: { title: "The body is too large", advice: "Send at most 128 MB; give large media as addresses." },
  field_required: { title: "A field is missing", advice: "Add the field." },
  field_invalid: { title: "A field cannot be used", advice: "Change the field as it says here." },
  malformed_request: {
    title: "The request could not be read",
    advice: "Send the whole body, encoded as its headers say.",
  },
  not_processable: { title: "The request could not be taken", advice: "Call by HTTPS." },
  idempotency_key_reused: {
    title: "An Idempotency-Key came with another request",
    advice: "Make a new one for each request, and send the same one only to repeat it.",
  },
  upstream_refused: { title: "The provider refused the request", advice: "Change what its answer objects to." },
  video_rejected: { title: "The provider refused the video", advice: "Change the prompt or the parameters." },
  task_not_found: { title: "No such video", advice: ownId },
  task_file_not_found: { title: "No such video", advice: ownId },
  task_not_ready: { title: "The video is not ready", advice: "Ask for its status until it is completed." },
  task_failed: { title: "The video has failed", advice: "Submit it again." },
  artifact_gone: { title: "The file is gone", advice: "Download files soon: providers keep them for a while only." },
  invalid_url: { title: "No such path", advice: "See the quick start for the paths of the API." },
};

/** Every reason that has words. */
export const knownReasons: readonly string[] = Object.keys(reasons);

export const refusalWords = (reason: string): RefusalWords =>
  reasons[reason] ?? { title: reason, advice: "The answer to the call says what is wrong." };
