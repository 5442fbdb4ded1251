/**
 * All of it base64, or an address that holds the content (`data:`). What another address leads to is a picture, or, of
 * files and sound, anything: some servers take one there as well (OpenRouter, Qwen).
 */
export type Holding = "base64" | "data-url" | "file" | "sound";

/**
 * A place of a request where media may stand. Whatever stands elsewhere is text, however it looks: a place that is read
 * as text would be paid as a picture.
 */
export type MediaPlace = {
  /** Places below it, by their names with quotes; lists are looked through. */
  below: readonly NamedPlace[];
  /** Media as a string at this place. */
  holds?: Holding;
  /** What a string at this place tells of the object in which it stands. */
  tells?: { bit: number; pattern: RegExp };
  /** Bits that an object must be told, each once, for the strings in it to be media. */
  needs?: number;
};

export type NamedPlace = { name: Buffer; place: MediaPlace };

/** Places by the fields at the top below which they stand. */
export type MediaPlaces = ReadonlyMap<string, MediaPlace>;

const object = (fields: Record<string, MediaPlace>): MediaPlace => ({
  below: Object.entries(fields).map(([name, place]) => ({ name: Buffer.from(`"${name}"`), place })),
});

const tells = (bit: number, pattern: RegExp): MediaPlace => ({ below: [], tells: { bit, pattern } });

const base64: MediaPlace = { below: [], holds: "base64" };
const dataUrl: MediaPlace = { below: [], holds: "data-url" };
// Some clients give the address without the object around it, as Responses has it.
const address: MediaPlace = { ...object({ url: dataUrl }), holds: "data-url" };
const file: MediaPlace = { below: [], holds: "file" };
const sound = object({ data: { below: [], holds: "sound" } });

const chatPart = object({
  image_url: address,
  video_url: address,
  input_audio: sound,
  file: object({ file_data: file }),
});

const responsePart = object({ image_url: address, input_audio: sound, file_data: file });
// An image that the provider made comes back in its item; other items know no result.
const responseItem: MediaPlace = {
  ...object({
    content: responsePart,
    output: responsePart,
    result: base64,
    type: tells(1, /^"image_generation_call"/),
  }),
  needs: 1,
};

// The source of a text has the same fields; the media type of a text says so, too.
const mediaType = /^"(?:image\\?\/(?!svg)[\w.+-]+|application\\?\/pdf)"/i;

/** Blocks stand in results of tools and in documents, too; the input of a call is text, whatever it looks like. */
function messagesBlock(): MediaPlace {
  const below: NamedPlace[] = [];
  const block: MediaPlace = { below };
  const source = object({ type: tells(1, /^"base64"/), media_type: tells(2, mediaType), data: base64, content: block });
  below.push(...object({ content: block, source: { ...source, needs: 3 } }).below);
  return block;
}

export const noMedia: MediaPlaces = new Map();
export const chatMedia: MediaPlaces = new Map([
  ["messages", object({ content: chatPart, images: object({ image_url: address }) })],
]);
export const responsesMedia: MediaPlaces = new Map([["input", responseItem]]);
export const messagesMedia: MediaPlaces = new Map([["messages", object({ content: messagesBlock() })]]);
const picture = object({ image_url: address });
export const imageEditsMedia: MediaPlaces = new Map([
  ["images", picture],
  ["mask", picture],
  ["markup", picture],
]);
export const moderationsMedia: MediaPlaces = new Map([["input", object({ image_url: address })]]);
