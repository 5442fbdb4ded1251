import { createRid } from "#shared/money/rid.ts";
import type { CreateEvent } from "./client-event.ts";

const noUsage = {
  input_tokens: 0,
  input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
  output_tokens: 0,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 0,
};

/** The id of a response without output, and its events. */
export type WarmUp = { id: string; frames: string[] };

/** The events of a response without output, which a later turn can continue; no model is called for it. */
export function writeWarmUp({ body, streamId, previousId }: CreateEvent): WarmUp {
  const id = `resp_${createRid().replaceAll("-", "")}`;
  const response = {
    id,
    object: "response",
    created_at: Math.floor(Date.now() / 1_000),
    model: body.readText("model", 1_024) ?? "",
    output: [],
    parallel_tool_calls: true,
    tool_choice: "auto",
    tools: [],
    instructions: null,
    metadata: {},
    temperature: null,
    top_p: null,
    error: null,
    incomplete_details: null,
    previous_response_id: previousId ?? null,
    store: false,
  };
  const lane = streamId === undefined ? {} : { stream_id: streamId };
  const events = [
    {
      type: "response.created",
      ...lane,
      sequence_number: 0,
      response: { ...response, status: "in_progress", usage: null },
    },
    {
      type: "response.completed",
      ...lane,
      sequence_number: 1,
      response: { ...response, status: "completed", usage: noUsage },
    },
  ];
  return { id, frames: events.map((event) => JSON.stringify(event)) };
}
