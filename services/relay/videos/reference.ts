import type { BodyShare } from "../http/body-budget.ts";
import { readSource } from "../dialects/data-url.ts";
import { CallFailure } from "../failures.ts";
import { fetchAddress, type FetchUrl } from "../conversion/fetch-media.ts";
import type { GivenReference } from "./read.ts";

/** A picture to begin with. */
export type Reference = { content: Uint8Array; mediaType: string };

export const maxReferenceBytes = 10 * 1024 * 1024;

const fetchLimits = { maxBytes: maxReferenceBytes, timeoutMs: 15_000 };

// As it came, and as it is written for the service of videos.
const copiesInMemory = 2;

const refused = (detail: string): CallFailure => new CallFailure({ name: "field_invalid", detail });

/** The media type that the first bytes tell, whatever a caller or a server says of them. */
function mediaTypeOf(content: Buffer): string | undefined {
  const begin = content.toString("latin1", 0, 12);
  if (begin.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (begin.startsWith("\xff\xd8\xff")) return "image/jpeg";
  return /^RIFF[^]{4}WEBP/.test(begin) ? "image/webp" : undefined;
}

export type ReferenceReading = {
  /** What the picture holds of the budget for bodies. */
  share: Pick<BodyShare, "claim">;
  /** Awaited before anything is fetched: nothing is fetched for strangers. */
  checkKey: () => Promise<unknown>;
  fetchUrl: FetchUrl;
};

async function contentOf(given: GivenReference, { checkKey, fetchUrl }: ReferenceReading): Promise<Buffer> {
  if ("content" in given) return given.content;
  const source = readSource(given.address);
  if (source.kind === "base64") return Buffer.from(source.data, "base64");
  await checkKey();
  return (await fetchAddress(given.address, fetchLimits, fetchUrl)).body;
}

/**
 * The picture that a video shall begin with: PNG, JPEG or WebP of at most 10 MiB. Throws `field_invalid`, or
 * `service_unavailable` when the budget has no room.
 */
export async function readReference(given: GivenReference, reading: ReferenceReading): Promise<Reference> {
  const claim = (bytes: number): void => {
    if (reading.share.claim(bytes * copiesInMemory)) return;
    throw new CallFailure({ name: "service_unavailable", cause: "no room for the picture" });
  };
  if ("address" in given) claim(maxReferenceBytes);
  const content = await contentOf(given, reading);
  if (content.length > maxReferenceBytes) throw refused("the picture of input_reference must have at most 10 MiB");
  claim(content.length);
  const mediaType = mediaTypeOf(content);
  if (mediaType === undefined) throw refused("the picture of input_reference must be a PNG, JPEG or WebP");
  // A copy: a part of the body would keep all of it in memory, whose share is given back when the caller goes away.
  return { content: "content" in given ? Buffer.concat([content]) : content, mediaType };
}
