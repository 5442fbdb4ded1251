import { hash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { VideoLimits } from "../catalog/models.ts";
import { member, RequestError } from "../dialects/dialect.ts";
import { readFormBody } from "../dialects/json/form-body.ts";
import { readJsonBody, type RequestBody } from "../dialects/json/request-body.ts";
import { CallFailure } from "../failures.ts";
import { maxModelCharacters, refusalOfBody } from "../http/read.ts";

/** A picture to begin with, as the caller gives it: the file itself or where it is (`data:` or `https:`). */
export type GivenReference = { content: Buffer } | { address: string };

/** A request for a video as it was written; what is undefined was left out. */
export type AskedVideo = {
  model: string;
  prompt: string;
  seconds: unknown;
  size: unknown;
  reference: GivenReference | undefined;
  /** Fields that no provider is told of: the first of them, by the caller's names. */
  dropped: readonly string[];
};

/** The model of the OpenAI API where none is named (its reference, Create video). */
const defaultModel = "sora-2";

/** The most that the OpenAI API takes. */
const maxPromptCharacters = 32_000;

/** A picture of 10 MiB in base64, with room for what is escaped in it. */
const maxAddressBytes = 16 * 1024 * 1024;

const isForm = /^multipart\/form-data/i;

/**
 * Reads a request for a video, a JSON object or a form as the official clients send it. Throws `invalid_json`,
 * `field_required` or `field_invalid`. Fields that are not of the OpenAI API go nowhere, and are named.
 */
export function readVideo(bytes: Buffer, contentType = ""): AskedVideo {
  try {
    const isOfForm = isForm.test(contentType);
    const body = isOfForm ? readFormBody(bytes, contentType) : readJsonBody(bytes);
    const reference = isOfForm ? referenceOfForm(body) : referenceOfJson(body);
    const given = (name: string): unknown => (body.has(name) ? body.read(name) : undefined);
    const textOf = (name: string, maxCharacters: number): string | undefined =>
      body.has(name) ? body.readText(name, maxCharacters) : undefined;
    const prompt = promptOf(textOf("prompt", maxPromptCharacters));
    return {
      model: required(textOf("model", maxModelCharacters) ?? defaultModel, "model"),
      // Clients write every line break of a form's field as two characters (HTML, multipart/form-data encoding).
      prompt: isOfForm ? prompt.replaceAll("\r\n", "\n") : prompt,
      seconds: given("seconds"),
      size: given("size"),
      reference,
      dropped: isOfForm
        ? droppedOf(body, (name) => !formFields.has(name))
        : droppedOf(body, (name) => !fields.has(name) && body.has(name)),
    };
  } catch (error) {
    throw refusalOfBody(error);
  }
}

const fields = new Set(["model", "prompt", "seconds", "size", "input_reference"]);
const formFields = new Set([...fields, "input_reference[image_url]"]);

// More than the header that names them can hold.
const maxDropped = 200;

function droppedOf(body: RequestBody, isDropped: (name: string) => boolean): string[] {
  const dropped = new Set<string>();
  for (const name of body.names()) {
    if (dropped.size === maxDropped) break;
    if (isDropped(name)) dropped.add(name);
  }
  return [...dropped];
}

function required(text: string | undefined, field: string): string {
  if (text === undefined || text === "") throw new CallFailure({ name: "field_required", detail: field });
  return text;
}

function promptOf(text: string | undefined): string {
  const prompt = required(text, "prompt");
  // No database keeps them.
  if (prompt.includes("\0")) throw new RequestError("field prompt must not have NUL characters");
  return prompt;
}

const noFiles = "field input_reference.file_id is not supported, send the picture itself or its address as image_url";

function addressOf(value: unknown): GivenReference {
  if (typeof value === "string" && value !== "") return { address: value };
  throw new RequestError("field input_reference must be a picture, or an object with its address as image_url");
}

function referenceOfJson(body: RequestBody): GivenReference | undefined {
  if (!body.has("input_reference")) return undefined;
  const value = body.readWhole("input_reference", maxAddressBytes);
  if ((member(value, "file_id") ?? undefined) !== undefined) throw new RequestError(noFiles);
  return addressOf(member(value, "image_url"));
}

/** Clients write the fields of an object in a form as `input_reference[image_url]`. */
function referenceOfForm(body: RequestBody): GivenReference | undefined {
  if (body.has("input_reference[file_id]")) throw new RequestError(noFiles);
  const address = body.readText("input_reference[image_url]", maxAddressBytes);
  if (address !== undefined) return addressOf(address);
  if (!body.has("input_reference")) return undefined;
  const content = body.read("input_reference");
  return Buffer.isBuffer(content) ? { content } : addressOf(undefined);
}

/** "4, 8 or 12". */
function oneOf(values: readonly (number | string)[]): string {
  const last = String(values.at(-1));
  return values.length > 1 ? `${values.slice(0, -1).join(", ")} or ${last}` : last;
}

/**
 * The length and the size that are made: what was asked for, else the model's first. Throws `field_invalid` with the
 * values that the model offers (API spec, Video generation errors).
 */
export function fitVideo(asked: AskedVideo, limits: VideoLimits): { seconds: number; size: string } {
  const refused = (what: string): CallFailure =>
    new CallFailure({ name: "field_invalid", detail: `${what} for the model ${asked.model}` });
  const { seconds = limits.seconds[0], size = limits.sizes[0] } = asked;
  // The OpenAI API writes it as a string; some clients as a number.
  const fitting = limits.seconds.find((offered) => offered === seconds || String(offered) === seconds);
  if (fitting === undefined) throw refused(`field seconds must be ${oneOf(limits.seconds)}`);
  const fittingSize = limits.sizes.find((offered) => offered === size);
  if (fittingSize === undefined) throw refused(`field size must be ${oneOf(limits.sizes)}`);
  if (asked.reference && !limits.takesReference) throw refused("field input_reference must be left out");
  return { seconds: fitting, size: fittingSize };
}

const keyPattern = /^[\x21-\x7e]{1,255}$/;

/** The caller's Idempotency-Key; "" when there is none. Throws `field_invalid`. */
export function readIdempotencyKey(headers: IncomingHttpHeaders): string {
  const key = headers["idempotency-key"];
  if (key === undefined) return "";
  if (typeof key === "string" && keyPattern.test(key)) return key;
  const detail = "header Idempotency-Key must have 1 to 255 visible ASCII characters";
  throw new CallFailure({ name: "field_invalid", detail });
}

/**
 * SHA-256 of what is asked for, by which two requests with one idempotency key are told apart. Of what was read and not
 * of the bytes that came: each form of a client has a boundary of its own.
 */
export function hashVideo(
  video: { model: string; prompt: string; seconds: number; size: string },
  reference: Uint8Array | undefined,
): Uint8Array {
  const { model, prompt, seconds, size } = video;
  const referenceHash = reference ? hash("sha256", reference, "hex") : "";
  return hash("sha256", JSON.stringify([model, prompt, seconds, size, referenceHash]), "buffer");
}
