import type { Units } from "#shared/money/pricing.ts";
import { isGiven, member, type Envelope, type Tally } from "../dialect.ts";
import { metered } from "../meter-answer.ts";
import { answers } from "./answers.ts";
import { blockReasonOf, endingOf, finishReasonOf } from "./finish-reasons.ts";
import { readUsage } from "./usage.ts";

/** A request of another kind than a conversation, and the caller's fields that it could not carry. */
export type WrittenCall = { path: string; body: Record<string, unknown>; dropped: Set<string> };

/** Given fields that are none of those that were carried or said nothing. */
export function lostFields(request: Record<string, unknown>, isCarried: (name: string, value: unknown) => boolean) {
  const lost = Object.entries(request).filter(([name, value]) => isGiven(value) && !isCarried(name, value));
  return new Set(lost.map(([name]) => name));
}

type MediaBucket = "imageOutputTokens" | "audioOutputTokens";

const ofKind = (units: Units, bucket: MediaBucket): Units =>
  units[bucket] ? units : { ...units, outputTokens: 0n, [bucket]: units.outputTokens ?? 0n };

/** Units of an answer that was asked for one kind of media only: what tells no kinds is all of that one. */
export function readMediaUsage(answer: unknown, bucket: MediaBucket): Units | undefined {
  const units = readUsage(member(answer, "usageMetadata"));
  return units && ofKind(units, bucket);
}

const { readReply } = metered(answers);

function hasMedia(answer: unknown): boolean {
  const candidates = member(answer, "candidates");
  const parts = Array.isArray(candidates) ? candidates.flatMap((one) => member(member(one, "content"), "parts")) : [];
  return parts.some((part) => isGiven(member(part, "inlineData")));
}

/** Reads a whole answer of media into a tally; one in words alone is none of that kind. */
export function readMediaTally(answer: unknown, envelope: Envelope, bucket: MediaBucket): Tally | undefined {
  const tally = readReply(answer, envelope);
  if (tally?.usage && hasMedia(answer)) tally.usage = ofKind(tally.usage, bucket);
  return tally;
}

/** Why nothing was made, where asking again would not help; undefined for any other answer. */
export function refusalOf(answer: unknown): string | undefined {
  const candidates = member(answer, "candidates");
  const endings = Array.isArray(candidates) ? candidates.map(endingOf) : [];
  const reason =
    blockReasonOf(answer) ?? endings.find((ending) => ending && finishReasonOf(ending, false) === "refusal");
  return reason && `The model refused the request: ${reason}`;
}
