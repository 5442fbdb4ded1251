import { type Static, Type } from "typebox";
import { Value } from "typebox/value";

const count = (description: string, maximum = 10_000_000) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum, description }));
const flag = (description: string) => Type.Optional(Type.Boolean({ description }));
const waitMs = (description: string) => count(description, 3_600_000);

/** Counts that the answer claims, in the disjoint buckets of usage.v1; a bucket left out is counted by the rule. */
const claimedUsage = Type.Object(
  {
    inputTokens: count("Input read afresh."),
    cacheReadTokens: count("Input read from the cache."),
    cacheWrite5mTokens: count("Input written to the cache; chat has only this write bucket."),
    cacheWrite1hTokens: count("Input written to the cache for an hour; Messages only."),
    outputTokens: count("Output without reasoning."),
    reasoningTokens: count("Output spent on reasoning."),
    audioInputTokens: count("Input that is sound."),
    audioOutputTokens: count("Output that is sound."),
    imageInputTokens: count("Input that is pictures."),
    imageOutputTokens: count("Output that is pictures."),
    mediaMs: count("Length of the sound heard; transcriptions told by duration only."),
  },
  { additionalProperties: false },
);

const fault = Type.Object(
  {
    kind: Type.Enum([
      "silence",
      "reset-before-headers",
      "cut",
      "reset",
      "half-frame",
      "stall",
      "error-event",
      "failed-event",
      "lone-error-event",
      "end-early",
    ]),
    afterChunks: count("Strikes when this many chunks with content were written; 0 (the default): before the first."),
    afterFrames: count("Strikes when this many frames of any sort were written, instead of afterChunks."),
    withheldFrames: count("Strikes before the last so many frames, instead of afterChunks; 1 withholds the end mark."),
  },
  { additionalProperties: false },
);

const framing = Type.Object(
  {
    bytePieces: count("Writes pieces of this many bytes, each on its own."),
    coalescedFrames: count("Writes this many frames at once."),
    isCrlf: flag("Ends lines with CR LF."),
    hasComments: flag("Puts a comment line before each frame."),
    isTight: flag("Leaves out the space after the colon of a field."),
    isPadded: flag("Pads the data with spaces before the end of the line."),
    hasObfuscation: flag("Adds the random field `obfuscation` to chat chunks."),
  },
  { additionalProperties: false },
);

const toolCall = Type.Object(
  { name: Type.String(), arguments: Type.Record(Type.String(), Type.Unknown()) },
  { additionalProperties: false },
);

/**
 * How the fake upstream answers one request; everything is optional and combines.
 *
 * Counting rule: a token is a word, that is a run of characters without white space. A tool call counts one token and
 * the words of its arguments as JSON. A spoken word counts 2 tokens of sound, a second of sound that is heard 10; a
 * picture counts by size and quality as the provider publishes it, one shown before it is finished 100.
 */
export const behaviourSchema = Type.Object(
  {
    text: Type.Optional(Type.String({ description: "What it says; left out: words are made." })),
    outputTokens: count("Words to make when no text is given; left out: as many as chunks, else 8."),
    textBytes: count("Size of a text, or of each picture, to make instead, for huge answers.", 64 * 1024 * 1024),
    thinking: Type.Optional(Type.String({ description: "Reasoning that is shown before the text." })),
    tools: Type.Optional(
      Type.Array(toolCall, { description: "Tool calls after the text; alone when no text is given." }),
    ),
    choices: count("Answers to give (chat, completions, images); left out: the request's n.", 128),
    chunks: count("Pieces that a streamed text is cut into, at most one per word; left out: one per word."),
    finish: Type.Optional(Type.String({ description: "Finish reason, as the provider spells it." })),
    servedModel: Type.Optional(Type.String({ description: "Model that the answer names; left out: the one asked." })),
    ignoresCap: flag("Says everything, whatever the request's output limit."),
    headersAfterMs: waitMs("Wait before the head of the answer."),
    firstChunkAfterMs: waitMs("Wait between the head and the first byte of the body."),
    gapMs: waitMs("Wait between frames of a stream."),
    usage: Type.Optional(Type.Union([claimedUsage, Type.Literal("omit")])),
    status: Type.Optional(Type.Integer({ minimum: 200, maximum: 599, description: "Answers with this error." })),
    error: Type.Optional(
      Type.Object(
        {
          type: Type.Optional(Type.String()),
          message: Type.Optional(Type.String()),
          code: Type.Optional(Type.Union([Type.String(), Type.Null()])),
          param: Type.Optional(Type.Union([Type.String(), Type.Null()])),
        },
        { additionalProperties: false, description: "Replaces fields of the provider's error." },
      ),
    ),
    retryAfterSeconds: count("Adds Retry-After to an error; a 429 has 7 without it."),
    isHtml: flag("Answers with an HTML page, status 200 unless `status` says otherwise."),
    isGzip: flag("Compresses when the request accepts gzip."),
    isGzipUnasked: flag("Compresses whatever the request accepts."),
    headers: Type.Optional(Type.Record(Type.String(), Type.String(), { description: "Added to the answer's head." })),
    fault: Type.Optional(fault),
    framing: Type.Optional(framing),
  },
  { additionalProperties: false },
);

export type Behaviour = Static<typeof behaviourSchema>;
export type Fault = Static<typeof fault>;
export type Framing = Static<typeof framing>;

const mark = '{"fake":';

/**
 * Reads a behaviour from the text of a request's last user message: when its first line is `{"fake":{…}}`, the value
 * is it. So a test that only reaches a relay, which forwards bodies but not headers, can still script the upstream.
 * Throws an Error that names what is wrong with a behaviour, because a misspelt fault must not pass as none.
 */
export function readBehaviour(lastUserText: string): Behaviour {
  if (!lastUserText.startsWith(mark)) return {};
  const firstLine = lastUserText.split("\n", 1)[0] ?? "";
  const { fake } = JSON.parse(firstLine) as { fake: unknown };
  return checkBehaviour(fake);
}

/** Returns `behaviour` when it is one; else throws an Error that names the fields that are wrong. */
export function checkBehaviour(behaviour: unknown): Behaviour {
  if (Value.Check(behaviourSchema, behaviour)) return behaviour;
  const problems = Value.Errors(behaviourSchema, behaviour);
  throw new Error(problems.map(({ instancePath, message }) => `${instancePath || "behaviour"} ${message}`).join("; "));
}

/** The text of a message that carries `behaviour`, with a prompt after it. */
export function behaviourText(behaviour: Behaviour, prompt = ""): string {
  return `${mark}${JSON.stringify(checkBehaviour(behaviour))}}${prompt && `\n${prompt}`}`;
}
