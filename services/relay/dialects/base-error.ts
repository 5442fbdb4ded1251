import { member, stringOf, type UpstreamError } from "./dialect.ts";

// MiniMax tells its errors in answers of 200, by numbers (https://platform.minimax.io/docs/api-reference/errorcode);
// 0 is none. These are the words of Format A for them.
const wordsOf: readonly [words: { type: string; code: string }, numbers: readonly number[]][] = [
  [{ type: "rate_limit_error", code: "rate_limit_exceeded" }, [1002, 1039, 1041, 2045]],
  [{ type: "authentication_error", code: "invalid_api_key" }, [1004, 2049]],
  [{ type: "insufficient_quota", code: "insufficient_quota" }, [1008, 2056]],
  [{ type: "invalid_request_error", code: "content_filter" }, [1026, 1027]],
  [{ type: "invalid_request_error", code: "invalid_request" }, [1042, 2013]],
  [{ type: "timeout_error", code: "timeout" }, [1001]],
];
const serverWords = { type: "server_error", code: "server_error" };

/** Reads `base_resp` of an answer that holds nothing else; undefined where it tells of no error. */
export function readBaseError(body: unknown): UpstreamError | undefined {
  const told = member(body, "base_resp");
  const number = member(told, "status_code");
  if (typeof number !== "number" || number === 0) return undefined;
  const choices = member(body, "choices");
  if (Array.isArray(choices) && choices.length > 0) return undefined;
  const [words] = wordsOf.find(([, numbers]) => numbers.includes(number)) ?? [serverWords];
  return { message: stringOf(member(told, "status_msg")) || `error ${number}`, ...words };
}
