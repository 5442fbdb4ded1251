import { Verdict, type CallState } from "#proto/authquota/v1/authquota_pb.ts";
import { holdSecret, leaseSecrets } from "#shared/money/hold-proof.ts";
import { answerCodes, type HotAnswer } from "../store/hot.ts";
import type { Caller, PreparedOperation } from "./operations.ts";
import type { Result } from "./session-wire.ts";

/** A relay that does not know a verdict must not take it for a yes. */
function verdictOf(code: number): Verdict {
  if (code === answerCodes.concurrency) return Verdict.ACCOUNT_RATE;
  return code === answerCodes.address ? Verdict.KEY_INVALID : (code as Verdict);
}

/** What the relay is told of the answer of the script. */
export function toResult(
  proofKey: Uint8Array,
  { prepared, caller }: { prepared: PreparedOperation; caller: Caller },
  { code, number, text }: HotAnswer,
): Result {
  const verdict = verdictOf(code);
  switch (prepared.name) {
    case "authorize":
    case "reserve": {
      const result: Result = { verdict, accountId: caller.accountId, keyId: caller.keyId };
      if (verdict === Verdict.IP_RATE) result.retryAfterSeconds = number;
      else if (prepared.name === "reserve") {
        result.heldNanos = number;
        if (verdict === Verdict.OK) result.holdSecret = holdSecret(proofKey, { rid: prepared.request.rid, ...caller });
      } else if (text !== "") result.models = text.split("\n");
      if (code === answerCodes.address) result.isAddressRefused = true;
      // While the caller is unknown, there is no key to name.
      if (caller.keyId === "?") result.keyId = "";
      return result;
    }
    case "lease":
      return verdict === Verdict.OK && number > 0
        ? leaseResult(proofKey, prepared, caller, { number, text })
        : { verdict };
    case "draw":
    case "settle":
      return { verdict, retryAfterSeconds: number };
    case "extend":
    case "restore":
      return { verdict, heldNanos: number };
    case "checkpoint":
      return { verdict, checkpointNanos: number };
    case "lookup":
      return { verdict, state: number as CallState };
    case "lookupMany":
    case "lookupLeased":
      // A digit for each call.
      return { verdict, states: Buffer.from(text, "latin1").map((digit) => digit - 48) as Buffer };
    default:
      return { verdict };
  }
}

/** A granted lease by the words of the script: calls, how long it lasts, the rate of addresses; then the models. */
function leaseResult(
  proofKey: Uint8Array,
  { ridMs }: PreparedOperation,
  { accountId, keyId }: Caller,
  { number, text }: Pick<HotAnswer, "number" | "text">,
): Result {
  const [head = "", ...models] = text.split("\n");
  const [calls = 0, lastsMs = 0, ipPerMinute = 0] = head.split(" ").map(Number);
  const secrets = leaseSecrets(proofKey, { accountId, keyId }, ridMs);
  return {
    verdict: Verdict.OK,
    accountId,
    keyId,
    heldNanos: number,
    calls,
    lastsMs,
    ipPerMinute,
    models: models.filter((model) => model !== ""),
    holdSecret: secrets,
    maySettleLeased: true,
  };
}
