import { createHash } from "node:crypto";
import { claimUnder, type Plan, randomId } from "./answer.ts";
import type { Behaviour } from "./behaviour.ts";
import { isObject } from "./dialect.ts";
import type { FakeRequest } from "./request.ts";
import { renderResponseUsage } from "./responses.ts";

/** Shrinks a conversation to its user messages and one sealed item; a tenth of its words is counted as output. */
export function planCompact(request: FakeRequest, behaviour: Behaviour): Plan {
  const tokens = Math.ceil(request.promptTokens / 10);
  const claim = claimUnder(behaviour, { inputTokens: request.promptTokens, outputTokens: tokens });
  const { input } = request.fields;
  const turns = typeof input === "string" ? [{ role: "user", content: input }] : input;
  const kept = (Array.isArray(turns) ? turns : []).filter((turn) => isObject(turn) && turn["role"] === "user");
  const sealed = createHash("sha256")
    .update(JSON.stringify(input ?? null))
    .digest("base64");
  const whole = {
    id: randomId("resp_", 50),
    object: "response.compaction",
    created_at: Math.floor(Date.now() / 1000),
    output: [
      ...kept.map((turn) => ({ id: randomId("msg_", 50), type: "message", status: "completed", ...turn })),
      { id: randomId("cmp_", 50), type: "compaction", encrypted_content: sealed },
    ],
    ...(claim && { usage: renderResponseUsage(claim) }),
  };
  return { claim, tokens, render: () => ({ type: "application/json", body: `${JSON.stringify(whole, null, 2)}\n` }) };
}
