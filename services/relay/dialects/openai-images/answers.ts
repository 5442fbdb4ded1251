import {
  namelessError,
  type AnswerFormat,
  type AnswerSink,
  type EventKind,
  type PassPolicy,
  type ReadingContext,
  type StreamReader,
} from "../answer.ts";
import { countOf, isUntouched, member, noCounts, stringOf, type Cleaner, type ModelPart } from "../dialect.ts";
import { passErrors, readError } from "../openai-shared/error.ts";
import { readTools } from "../openai-shared/usage.ts";
import { countSvg, withSvgs } from "../openai-shared/svg.ts";
import { readTold, withImage, type ImageCounts } from "./usage.ts";

/** What was made of an image for which "auto" was asked, or nothing: its price may depend on it. */
function readMade(image: unknown, sink: AnswerSink): void {
  for (const name of ["size", "quality"]) {
    const made = stringOf(member(image, name));
    if (made && made !== "auto") sink.priceField(name, made);
  }
}

/** What a stream has made so far, and what was told with its images. */
type Made = { images: bigint; ended: bigint; counts: ImageCounts | undefined };

/** Counts what the provider searched for its images. */
function countSearches(usage: unknown, sink: AnswerSink): void {
  const { webSearches } = readTools(usage);
  if (webSearches !== undefined) sink.counted("webSearches", webSearches);
}

/** An event that brings an image. Others of its kind sum up what the events before have brought. */
const hasImage = (event: unknown): boolean =>
  stringOf(member(event, "b64_json")) !== undefined || stringOf(member(event, "url")) !== undefined;

/** Volcengine and MiniMax tell with each image that it is there, and the counts of all in an event behind them. */
function readSummary(event: unknown, made: Made, sink: AnswerSink): void {
  const generated = countOf(member(member(event, "usage"), "generated_images"));
  if (generated > made.images) made.images = generated;
  sink.counted("images", made.images);
  countSearches(member(event, "usage"), sink);
  const told = readTold(member(event, "usage"));
  if (told) sink.usage(told);
  sink.ended(true, true);
  sink.markEnd();
}

/**
 * Reads a stream of images. It is whole when as many completed images have passed as were asked for, or with an event
 * that sums them up. A partial image is content too: the last one is nearly the image, and whoever leaves with it has
 * been served.
 */
function createStreamReader(sink: AnswerSink, { envelope: { units } }: ReadingContext): StreamReader {
  const wanted = units.images ?? 1n;
  const made: Made = { images: 0n, ended: 0n, counts: undefined };
  const readImage = (): void => {
    made.images += 1n;
    sink.counted("images", made.images);
  };
  const readCompleted = (event: unknown): void => {
    if (!hasImage(event) && made.images > made.ended) return readSummary(event, made, sink);
    readImage();
    made.ended += 1n;
    const told = readTold(member(event, "usage"));
    if (told) sink.usage((made.counts = withImage(made.counts, told)).told);
    sink.ended(true, made.ended >= wanted);
    if (made.ended >= wanted) sink.markEnd();
  };
  const read = (event: unknown): EventKind => {
    const type = stringOf(member(event, "type")) ?? "";
    if (isOfOneImage(event)) return "error";
    if (type === "error" || member(event, "error")) {
      // What the images before it took, MiniMax tells with it.
      const told = readTold(member(event, "usage"));
      if (told) sink.usage(told);
      sink.error(readError(event) ?? namelessError);
      return "error";
    }
    if (/\.(?:partial_image|partial_succeeded|completed)$/.test(type)) sink.content(0);
    readMade(event, sink);
    if (type.endsWith(".partial_succeeded")) readImage();
    if (type.endsWith(".completed")) readCompleted(event);
    return undefined;
  };
  return { read: ({ json }) => read(json), end: () => undefined };
}

/** Reads a whole answer: as many images as it holds. */
function readReply(body: unknown, sink: AnswerSink): boolean {
  const data = member(body, "data");
  if (!Array.isArray(data)) return false;
  // Volcengine tells in the place of an image why it was not made.
  const images = (data as unknown[]).filter((one) => !member(one, "error") || hasImage(one)).length;
  if (images > 0) sink.content(0);
  sink.counted("images", BigInt(images));
  countSearches(member(body, "usage"), sink);
  const drawings: ModelPart[] = [];
  countSvg(body, drawings);
  const told = readTold(member(body, "usage"));
  if (told?.scope === "answer" && told.units !== noCounts && drawings.length > 0) {
    sink.usage({ ...told, units: withSvgs(told.units, drawings), byModel: drawings });
  } else if (told) sink.usage(told);
  readMade(body, sink);
  sink.served(stringOf(member(body, "model")));
  sink.ended(true, true);
  sink.markEnd();
  return true;
}

/** Whether an event tells why one of many images was not made (Volcengine): the others still come. */
const isOfOneImage = (event: unknown): boolean =>
  (stringOf(member(event, "type")) ?? "").endsWith(".partial_failed") && Boolean(member(event, "error"));

/** Lets errors pass as callers may see them; what is told of one image keeps its place among the others. */
function passImageErrors(clean: Cleaner): PassPolicy {
  const passing = passErrors(clean);
  return {
    onError: (event, error) => {
      const { json } = event;
      if (!isOfOneImage(json)) return passing.onError(event, error);
      const own = readError(json) ?? namelessError;
      const cleaned = clean(own);
      if (isUntouched(own, cleaned)) return "pass";
      const { message, code } = cleaned;
      const told = JSON.stringify({ ...(json as object), error: { message, code } });
      return Buffer.from(`event: ${String(member(json, "type"))}\ndata: ${told}\n\n`);
    },
  };
}

export const answers: AnswerFormat = {
  createStreamReader,
  readReply,
  createPassing: (_envelope, clean) => passImageErrors(clean),
};
