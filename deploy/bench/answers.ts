/** What the bench's upstream serves, and by which the loader knows a whole answer. */

export const model = "bench-chat";

/** Frames with content in a streamed answer. */
export const streamChunks = 100;

/** Frames in a streamed answer: role, content, finish, usage, end mark. */
export const streamFrames = streamChunks + 4;

/** Last bytes of a streamed answer. */
export const streamEnd = "data: [DONE]\n\n";

/** Time between the chunks of a paced stream. */
export const gapMs = 10;

/** Digits of the instant in a paced chunk: microseconds of the machine's monotonic clock. */
export const instantDigits = 16;

/** Comes right before the instant in a paced chunk, and nowhere else in an answer. */
export const instantMark = "@";

/** What every answer claims. */
export const claim = { inputTokens: 250, outputTokens: 180 };

export type LoadKind = "json" | "paced" | "burst";

const bodyBytes = 1_024;

/** A request of 1 KB; its text names the kind of answer wanted. */
export function requestBody(kind: LoadKind): string {
  const render = (text: string): string =>
    JSON.stringify({
      model,
      messages: [{ role: "user", content: `bench-${kind} ${text}` }],
      ...(kind !== "json" && { stream: true, stream_options: { include_usage: true } }),
    });
  return render(filler(bodyBytes - render("").length));
}

/** The kind of answer that a request of `requestBody` wants. */
export function wantedKind(body: Buffer): LoadKind {
  if (body.includes("bench-paced")) return "paced";
  return body.includes("bench-burst") ? "burst" : "json";
}

/** A whole answer of 1 KB. */
export function jsonAnswer(): string {
  const render = (content: string): string =>
    JSON.stringify({
      id: "chatcmpl-bench",
      object: "chat.completion",
      created: 1_795_219_253,
      model,
      choices: [
        { index: 0, message: { role: "assistant", content, refusal: null }, logprobs: null, finish_reason: "stop" },
      ],
      usage: renderClaim(),
    });
  return render(filler(bodyBytes - render("").length));
}

/** The frames of a streamed answer in order; each content frame carries an instant of zeros. */
export function streamAnswer(): string[] {
  const chunk = (choices: object[], usage: object | null = null): string => {
    const head = { id: "chatcmpl-bench", object: "chat.completion.chunk", created: 1_795_219_253, model };
    return `data: ${JSON.stringify({ ...head, choices, usage })}\n\n`;
  };
  const delta = (fields: object, reason: string | null = null): object[] => [
    { index: 0, delta: fields, finish_reason: reason },
  ];
  const content = chunk(delta({ content: ` ${instantMark}${"0".repeat(instantDigits)}` }));
  return [
    chunk(delta({ role: "assistant", content: "" })),
    ...Array.from({ length: streamChunks }, () => content),
    chunk(delta({}, "stop")),
    chunk([], renderClaim()),
    streamEnd,
  ];
}

function renderClaim(): object {
  const { inputTokens, outputTokens } = claim;
  return {
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
    prompt_tokens_details: { cached_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
  };
}

function filler(length: number): string {
  return "lorem ipsum ".repeat(Math.ceil(length / 12)).slice(0, length);
}
