import { inputFactsOf, noteInputFacts, type InputFacts } from "../charge/input-facts.ts";
import type { Envelope } from "../dialects/dialect.ts";
import { isHoldingState, type RequestBody } from "../dialects/json/request-body.ts";

/** What a body tells without its bytes. */
export type BodyFacts = Pick<RequestBody, "contentType" | "textBytes" | "mediaBytes" | "values"> & {
  length: number;
  /** Whether it holds state of other providers' models, which must be read to be taken out. */
  isHoldingState: boolean;
  encodingFormat: unknown;
  input: InputFacts;
};

/** An envelope that can be told from thread to thread. */
export type EnvelopeFacts = Omit<Envelope, "body"> & { body: BodyFacts };

const noBytes = Buffer.alloc(0);
const formatField = "encoding_format";

function formatOf(body: RequestBody): unknown {
  try {
    return body.read(formatField);
  } catch {
    // A list, or longer than any: the upstream's to refuse.
    return undefined;
  }
}

export function factsOf(told: Envelope): EnvelopeFacts {
  const { body, ...envelope } = told;
  const { contentType, textBytes, mediaBytes, values, bytes } = body;
  const mustOpen = told.stateIds !== undefined || isHoldingState(body);
  const facts = { contentType, textBytes, mediaBytes, values, length: bytes.length, isHoldingState: mustOpen };
  return { ...envelope, body: { ...facts, encodingFormat: formatOf(body), input: inputFactsOf(told) } };
}

const unknown = (): never => {
  throw new Error("the bytes of this body are in another thread");
};

/** A body whose bytes are elsewhere. What is asked of a body behind its envelope is known; anything else throws. */
function bodyOfFacts(facts: BodyFacts, input: unknown): RequestBody {
  const { contentType, textBytes, mediaBytes, values, encodingFormat, isHoldingState } = facts;
  const { textTokens, addresses, hasTools } = facts.input;
  return {
    bytes: noBytes,
    contentType,
    textBytes,
    mediaBytes,
    values,
    read: (name) => (name === formatField ? encodingFormat : unknown()),
    readWhole: (name) => (name === "input" ? input : unknown()),
    mayHold: () => isHoldingState,
    hasEscapedLetters: unknown,
    media: [],
    addresses,
    textTokens: (most) => Math.min(textTokens, most),
    names: unknown,
    has: (name) => (name === "tools" ? hasTools : unknown()),
    isArray: unknown,
    readText: unknown,
    countCharacters: unknown,
    countItems: unknown,
    slice: unknown,
    rewrite: unknown,
  };
}

/** The envelope as it was told; `input` is the request's field of that name, where it is known. */
export function envelopeOfFacts({ body, ...envelope }: EnvelopeFacts, input?: unknown): Envelope {
  const known = { ...envelope, body: bodyOfFacts(body, input) };
  noteInputFacts(known, body.input);
  return known;
}
