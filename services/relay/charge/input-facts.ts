import type { Units } from "#shared/money/pricing.ts";
import type { Envelope } from "../dialects/dialect.ts";
import { mediaTokens, noteMediaTokens, type MediaTokens } from "./media-tokens.ts";
import { noteToolRuns, toolRuns } from "./tool-units.ts";
import { isPartlyUnseen, notePartlyUnseen } from "./unseen.ts";

/** What holds and estimates need of a request whose bytes are in another thread. */
export type InputFacts = {
  textTokens: number;
  addresses: number;
  hasTools: boolean;
  media: MediaTokens;
  isPartlyUnseen: boolean;
  toolRuns: Units;
};

export const inputFactsOf = (envelope: Envelope): InputFacts => ({
  textTokens: envelope.body.textTokens(Number.MAX_SAFE_INTEGER),
  addresses: envelope.body.addresses,
  hasTools: envelope.body.has("tools"),
  media: mediaTokens(envelope.body),
  isPartlyUnseen: isPartlyUnseen(envelope.body),
  toolRuns: toolRuns(envelope),
});

/** Makes what was found of a body in another thread known of its stand-in here. */
export function noteInputFacts({ body }: Pick<Envelope, "body">, facts: InputFacts): void {
  noteMediaTokens(body, facts.media);
  notePartlyUnseen(body, facts.isPartlyUnseen);
  noteToolRuns(body, facts.toolRuns);
}
