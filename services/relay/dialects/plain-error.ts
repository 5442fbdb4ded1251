import { readBaseError } from "./base-error.ts";
import { member, stringOf, type UpstreamError } from "./dialect.ts";

// Errors in other shapes than a format's own, as compatible servers, and gateways in front of any server, send them.

// The objects that have a message themselves, and what they call it: SiliconFlow and Amazon say `message`, Zhipu `msg`.
const messageNames = ["message", "msg", "error_message"] as const;

/** What servers on FastAPI find wrong in a request: `detail: [{loc, msg}]`, or in words, which DeepInfra wraps. */
function readDetail(detail: unknown): Pick<UpstreamError, "message" | "param"> | undefined {
  const words = stringOf(detail) ?? stringOf(member(detail, "error")) ?? stringOf(member(detail, "message"));
  if (words !== undefined) return { message: words };
  const found = (Array.isArray(detail) ? (detail as unknown[]) : []).flatMap((entry) => {
    const [message, path] = [stringOf(member(entry, "msg")), member(entry, "loc")];
    const place = Array.isArray(path) ? path.filter((name) => name !== "body").join(".") : "";
    return message === undefined ? [] : [{ message, place }];
  });
  const [first] = found;
  if (!first) return undefined;
  const message = found.map((one) => (one.place === "" ? one.message : `${one.message} (${one.place})`)).join("; ");
  return { message, ...(first.place !== "" && { param: first.place }) };
}

/** The words of an object that is an error. */
function wordsOf(error: unknown): Pick<UpstreamError, "message" | "param"> | undefined {
  for (const name of messageNames) {
    const message = stringOf(member(error, name));
    if (message !== undefined) return { message };
  }
  return readDetail(member(member(error, "message") ?? error, "detail"));
}

/** The field that an error names, if any. */
export function paramOf(error: unknown): { param?: string } {
  const param = stringOf(member(error, "param"));
  return param ? { param } : {};
}

/** The object that tells an error, and its words. */
type Found = { object: unknown; words: Pick<UpstreamError, "message" | "param"> };

/** Finds the words of an error; beside those of the body `error` may be the name of a status (Spring, NestJS). */
function findWords(body: unknown): Found | undefined {
  const error = member(body, "error");
  const list = member(body, "errors");
  // What calls itself something else is no error.
  const isOther = (member(body, "object") ?? "error") !== "error";
  for (const object of [error, Array.isArray(list) ? list[0] : undefined, isOther ? undefined : body]) {
    const words = wordsOf(object);
    if (words) return { object, words };
  }
  const message = stringOf(error);
  return message === undefined ? undefined : { object: undefined, words: { message } };
}

// More than the reason of any error.
const maxReasonCharacters = 20_000;

/**
 * What the provider behind a gateway said, where the gateway's own words are no more than that there was an error
 * (OpenRouter's `metadata.raw`: https://openrouter.ai/docs/api-reference/errors). Agents compact by such words.
 */
function reasonOf(error: unknown): string | undefined {
  const raw = member(member(error, "metadata"), "raw");
  if (typeof raw !== "string") return findWords(raw)?.words.message;
  if (raw.length > maxReasonCharacters) return undefined;
  try {
    return findWords(JSON.parse(raw))?.words.message;
  } catch {
    return raw;
  }
}

/** Reads an error whose words stand in `error`, in a list of `errors` (Cloudflare), in `base_resp`, or in the body. */
export function readPlainError(body: unknown): UpstreamError | undefined {
  const found = findWords(body);
  if (!found) return readBaseError(body);
  const { object, words } = found;
  const code = member(object, "code");
  const reason = reasonOf(object);
  return {
    ...words,
    ...(reason && { message: `${words.message}: ${reason}` }),
    type: stringOf(member(object, "type")),
    code: stringOf(code) ?? (typeof code === "number" ? String(code) : undefined),
    ...paramOf(object),
  };
}
