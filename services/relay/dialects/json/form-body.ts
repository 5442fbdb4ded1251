import { checkedText, maxScalarBytes, type RequestBody } from "./request-body.ts";
import { weighText } from "./weigh.ts";
import { RequestError } from "../request-error.ts";

/** A body that is not the multipart form that its content type announces. */
export class FormError extends Error {}

/** Where the content of a part stands in the body. */
type Part = { name: string; isFile: boolean; start: number; end: number };

const maxParts = 200;
/** Files by which forms are counted: the sound of a transcription, the pictures of an edit. */
const mediaFields = new Set(["file", "image", "image[]", "mask", "markup"]);
const fileFields = new Set([...mediaFields, "input_reference"]);
const maxHeadBytes = 4_096;
const boundaryPattern = /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i;
// The one spelling that clients use. Anything cleverer might be read otherwise by the upstream.
const dispositionPattern = /^form-data; ?name="([^"]*)"(; ?filename\*?=(?:"[^"]*"|[^\s;"]+))*$/i;
const headEnd = Buffer.from("\r\n\r\n");
const dash = 45;

function readDisposition(head: string, headStart: number): Pick<Part, "name" | "isFile"> {
  const values = head
    .split("\r\n")
    .filter((line) => /^content-disposition:/i.test(line))
    .map((line) => line.slice(line.indexOf(":") + 1).trim());
  const [, name, file] = dispositionPattern.exec(values[0] ?? "") ?? [];
  if (name === undefined || values.length > 1) throw new FormError(`a part without a plain name at byte ${headStart}`);
  return { name, isFile: file !== undefined };
}

const encodingPattern = /^content-transfer-encoding:(?![ \t]*(?:7bit|8bit|binary)[ \t]*$)/im;

/** Some parsers join a line to the one before, decode what a part says is encoded, or do neither of it. */
function refuseOddHead(head: string, headStart: number): void {
  if (/\n[ \t]/.test(head)) throw new FormError(`a line that goes on at byte ${headStart}`);
  if (encodingPattern.test(head)) throw new FormError(`an encoded part at byte ${headStart}`);
}

function readPart(bytes: Buffer, headStart: number, delimiter: Buffer): Part {
  const headStop = bytes.indexOf(headEnd, headStart);
  if (headStop === -1 || headStop - headStart > maxHeadBytes) throw new FormError(`no part at byte ${headStart}`);
  const head = bytes.toString("utf8", headStart, headStop);
  // Some parsers end a line at either of the two, and would find other headers.
  if (/(?<!\r)\n|\r(?!\n)/.test(head)) throw new FormError(`a line that has no end of its own at byte ${headStart}`);
  refuseOddHead(head, headStart);
  const { name, isFile } = readDisposition(head, headStart);
  const start = headStop + headEnd.length;
  const end = bytes.indexOf(delimiter, start);
  if (end === -1) throw new FormError(`the part ${name} has no end`);
  const bareDelimiter = delimiter.subarray(1);
  if (bytes.subarray(start, end).includes(bareDelimiter)) throw new FormError(`a boundary within the part ${name}`);
  return { name, isFile, start, end };
}

/** Parts of a form (RFC 7578): found by their delimiters, so that files are neither copied nor decoded. */
function readParts(bytes: Buffer, boundary: string): Part[] {
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  const first = delimiter.subarray(2);
  if (!bytes.subarray(0, first.length).equals(first)) throw new FormError("no boundary at the beginning");
  const parts: Part[] = [];
  let at = first.length;
  while (bytes[at] !== dash || bytes[at + 1] !== dash) {
    if (bytes[at] !== 13 || bytes[at + 1] !== 10) throw new FormError(`no line end behind the boundary at byte ${at}`);
    if (parts.length >= maxParts) throw new FormError(`more than ${maxParts} parts`);
    const part = readPart(bytes, at + 2, delimiter);
    parts.push(part);
    at = part.end + delimiter.length;
  }
  // Some parsers read on behind the last boundary.
  if (bytes.includes(first, at)) throw new FormError(`a boundary behind the last one at byte ${at}`);
  return parts;
}

/**
 * Reads a form of fields and files. Throws FormError when it is none, or when a field stands twice although the relay
 * reads it: the upstream might obey the other one.
 */
export function readFormBody(bytes: Buffer, contentType: string): RequestBody {
  const [, quoted, plain] = boundaryPattern.exec(contentType) ?? [];
  const boundary = quoted ?? plain;
  const isOne = contentType.match(/;\s*boundary[\s*\d]*=/gi)?.length === 1;
  if (boundary === undefined || !isOne) throw new FormError("the content type must name one boundary");
  const parts = readParts(bytes, boundary);
  const find = (name: string): Part | undefined => {
    const [part, ...others] = parts.filter((candidate) => candidate.name === name);
    if (others.length > 0) throw new FormError(`field ${name} stands twice`);
    return part;
  };
  const textOf = ({ start, end }: Part): string => bytes.toString("utf8", start, end);
  // A text that comes as a file is a text all the same.
  const isMedia = ({ isFile, name }: Part): boolean => isFile && mediaFields.has(name);
  const mediaBytes = parts.filter(isMedia).map(({ start, end }) => end - start);
  const textBytes = parts.reduce((sum, part) => sum + (isMedia(part) ? 0 : part.end - part.start), 0);
  const weighParts = (): number =>
    parts.reduce((sum, part) => sum + (isMedia(part) ? 0 : weighText(bytes, part.start, part.end)), 0);
  return {
    bytes,
    contentType,
    names: () => parts.map(({ name }) => name),
    has: (name) => find(name) !== undefined,
    isArray: () => false,
    slice: () => undefined,
    mayHold: () => false,
    hasEscapedLetters: () => false,
    read: (name) => {
      const part = find(name);
      if (!part) return undefined;
      if (part.isFile && !fileFields.has(name)) throw new RequestError(`field ${name} must not be a file`);
      if (part.isFile) return bytes.subarray(part.start, part.end);
      if (part.end - part.start > maxScalarBytes) {
        throw new RequestError(`field ${name} must have at most ${maxScalarBytes} bytes`);
      }
      return textOf(part);
    },
    readText: (name, maxCharacters) => {
      const part = find(name);
      if (!part) return undefined;
      return checkedText(name, part.end - part.start, maxCharacters, () => (part.isFile ? undefined : textOf(part)));
    },
    readWhole: () => undefined,
    countCharacters: () => undefined,
    countItems: () => undefined,
    rewrite: ({ replace = {} }) => {
      const pieces: Buffer[] = [];
      let at = 0;
      for (const { name, start, end } of parts) {
        if (!Object.hasOwn(replace, name)) continue;
        pieces.push(bytes.subarray(at, start), Buffer.from(replace[name] ?? ""));
        at = end;
      }
      return pieces.length === 0 ? bytes : Buffer.concat([...pieces, bytes.subarray(at)]);
    },
    textBytes,
    mediaBytes,
    media: [],
    addresses: 0,
    textTokens: (most) => Math.min(weighParts(), most),
    values: 0,
  };
}
