import { RequestError, type AnswerKind, type Envelope } from "../dialect.ts";
import type { RequestBody } from "../json/request-body.ts";

// Audio tokens of a character: speech has some 15 characters a second, token-priced models make some 21 tokens of one.
const audioTokensPerCharacter = 1.5;

/** Reads a request for speech. Characters are code points of the input, as providers count them. */
export function readEnvelope(body: RequestBody, model: string): Envelope {
  const characters = body.countCharacters("input");
  if (characters === undefined) throw new RequestError("field input must be a string");
  const format = body.read("response_format");
  const answer: AnswerKind = body.read("stream_format") === "sse" ? "events" : "bytes";
  return {
    body,
    model,
    answer,
    outputCap: undefined,
    choices: 0,
    units: {
      characters: BigInt(characters),
      audioOutputTokens: BigInt(Math.ceil(characters * audioTokensPerCharacter)),
    },
    ...(typeof format === "string" && { soundFormat: format }),
    priceFields: {},
    wantsStreamUsage: true,
  };
}
