import type { ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Headers } from "./request.ts";
import type { VideoJob } from "./videos-jobs.ts";

/** What callers may fetch of a finished video. */
export type VideoVariant = "video" | "thumbnail" | "spritesheet";

export const variantTypes: Record<VideoVariant, string> = {
  video: "video/mp4",
  thumbnail: "image/webp",
  spritesheet: "image/jpeg",
};

// "ftyp" of ISO/IEC 14496-12, the two kinds of picture by their first bytes.
const heads: Record<VideoVariant, Buffer> = {
  video: Buffer.from("\0\0\0\x18ftypisom\0\0\x02\0isommp42", "latin1"),
  thumbnail: Buffer.from("RIFF\xf8\x03\0\0WEBPVP8 ", "latin1"),
  spritesheet: Buffer.from("\xff\xd8\xff\xe0\0\x10JFIF\0", "latin1"),
};

const pieceBytes = 65_536;
const lastModified = new Date(Date.UTC(2026, 0, 15)).toUTCString();

/**
 * The bytes from `from` up to `to` of a file: the same for the same `id` and variant, and other ones for others, so
 * that a part can be compared without the whole.
 */
export function videoFileBytes(
  { id }: Pick<VideoJob, "id">,
  variant: VideoVariant,
  { from, to }: { from: number; to: number },
): Buffer {
  const seed = [...id].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 65_521, 7);
  const head = heads[variant];
  const bytes = Buffer.allocUnsafe(Math.max(0, to - from));
  for (let index = 0; index < bytes.length; index += 1) {
    const at = from + index;
    bytes[index] = head[at] ?? (seed + at + (at >>> 8) * 7 + (at >>> 16) * 13) & 0xff;
  }
  return bytes;
}

function* piecesOf(job: VideoJob, variant: VideoVariant, { from, to }: { from: number; to: number }) {
  for (let at = from; at < to; at += pieceBytes)
    yield videoFileBytes(job, variant, { from: at, to: Math.min(to, at + pieceBytes) });
}

type Part = { from: number; to: number } | "whole" | "outside";

// RFC 9110, 14.1.2; more than one range is answered with the whole, as 14.2 allows.
function readRange(range: string | undefined, size: number): Part {
  const [, first = "", last = ""] = /^bytes=(\d*)-(\d*)$/.exec(range ?? "") ?? [];
  if (first === "" && last === "") return "whole";
  const from = first === "" ? Math.max(0, size - Number(last)) : Number(first);
  const to = first === "" || last === "" ? size : Math.min(size, Number(last) + 1);
  return from >= size || from >= to ? "outside" : { from, to };
}

/** Answers with a file of `size` bytes, whole or the part that `range` asks for; ends early when the caller leaves. */
export async function sendVideoFile(
  response: ServerResponse,
  headers: Headers,
  { job, variant, size }: { job: VideoJob; variant: VideoVariant; size: number },
): Promise<void> {
  const etag = `"${job.id.slice(-16)}-${variant}"`;
  const ifRange = headers["if-range"]?.toString();
  const isSame = ifRange === undefined || ifRange === etag || ifRange === lastModified;
  const part = isSame ? readRange(headers["range"]?.toString(), size) : "whole";
  const common = { "accept-ranges": "bytes", etag, "last-modified": lastModified };
  if (part === "outside")
    return void response.writeHead(416, { ...common, "content-range": `bytes */${size}`, "content-length": 0 }).end();
  const { from, to } = part === "whole" ? { from: 0, to: size } : part;
  response.writeHead(part === "whole" ? 200 : 206, {
    ...common,
    "content-type": variantTypes[variant],
    "content-length": to - from,
    ...(part !== "whole" && { "content-range": `bytes ${from}-${to - 1}/${size}` }),
  });
  // A caller that hangs up is no fault of this server.
  await pipeline(Readable.from(piecesOf(job, variant, { from, to })), response).catch(() => undefined);
}
