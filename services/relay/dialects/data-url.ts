import type { MediaSource } from "./conversation.ts";

const defaultType = "text/plain";
// A media type and a few parameters. Split, a head of separators only would take eight times the memory of a body.
const maxHeadLength = 256;

function percentDecoded(payload: string): string {
  try {
    return decodeURIComponent(payload);
  } catch {
    return payload;
  }
}

/** Reads an address of a picture or file, which may hold it (`data:`). Blanks and percent signs in it are taken out. */
export function readSource(address: string): MediaSource {
  const comma = address.startsWith("data:") ? address.indexOf(",") : -1;
  if (comma === -1 || comma > maxHeadLength) return { kind: "url", url: address };
  const [mediaType = "", ...parameters] = address.slice(5, comma).split(";");
  const payload = address.slice(comma + 1);
  // Most payloads are clean, and large: look before copying.
  const text = payload.includes("%") ? percentDecoded(payload) : payload;
  const isBase64 = parameters.some((parameter) => parameter.trim() === "base64");
  const data = isBase64 ? (/\s/.test(text) ? text.replaceAll(/\s/g, "") : text) : Buffer.from(text).toString("base64");
  return { kind: "base64", mediaType: mediaType || defaultType, data };
}

/** A `data:` address that holds the content. */
export const dataUrl = (mediaType: string, data: string): string => `data:${mediaType};base64,${data}`;
