import { member, stringOf } from "../dialect.ts";
import type { Reply } from "../reply.ts";
import { readItem, readReason } from "./read-items.ts";
import { readUsage } from "./usage.ts";

// Of a response that is not finished, or never will be, nothing can be answered.
const endedStatuses = new Set<unknown>(["completed", "incomplete", undefined, null]);

/** Reads a whole response; undefined for what is none, and for one that failed. */
export function readReply(body: unknown): Reply | undefined {
  const output = member(body, "output");
  const status = member(body, "status");
  if (!Array.isArray(output) || !endedStatuses.has(status)) return undefined;
  const blocks = output.flatMap(readItem).filter((block) => block !== undefined);
  const hasCall = blocks.some(({ kind }) => kind === "call");
  const createdAt = member(body, "created_at");
  return {
    id: stringOf(member(body, "id")) ?? "",
    model: stringOf(member(body, "model")) ?? "",
    ...(typeof createdAt === "number" && { createdAtSeconds: createdAt }),
    choices: [{ blocks, reason: readReason(body, status === "incomplete", hasCall) }],
    usage: readUsage(member(body, "usage")),
  };
}
