import { UnsupportedError, type MediaSource } from "../conversation.ts";

/** `inlineData` of a source. Throws UnsupportedError for an address or a file of another provider. */
export function writeSource(source: MediaSource): Record<string, unknown> {
  if (source.kind === "base64") return { inlineData: { mimeType: source.mediaType, data: source.data } };
  if (source.kind === "id") throw new UnsupportedError(`this model cannot read the file ${source.id} by its ID`);
  throw new UnsupportedError(`this model cannot read from the address ${source.url}`);
}
