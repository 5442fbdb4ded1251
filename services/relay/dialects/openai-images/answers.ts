import {
  namelessError,
  type AnswerFormat,
  type AnswerSink,
  type EventKind,
  type ReadingContext,
  type StreamReader,
} from "../answer.ts";
import { member, noCounts, stringOf, type ModelPart } from "../dialect.ts";
import { passErrors, readError } from "../openai-shared/error.ts";
import { countSvg, withSvgs } from "../openai-shared/svg.ts";
import { readTold } from "./usage.ts";

/** What was made of an image for which "auto" was asked, or nothing: its price may depend on it. */
function readMade(image: unknown, sink: AnswerSink): void {
  for (const name of ["size", "quality"]) {
    const made = stringOf(member(image, name));
    if (made && made !== "auto") sink.priceField(name, made);
  }
}

/**
 * Reads a stream of images. It is whole when as many completed images have passed as were asked for. A partial image
 * is content too: the last one is nearly the image, and whoever leaves with it has been served.
 */
function createStreamReader(sink: AnswerSink, { envelope: { units } }: ReadingContext): StreamReader {
  const wanted = units.images ?? 1n;
  let completed = 0n;
  const readCompleted = (event: unknown): void => {
    completed += 1n;
    sink.counted("images", completed);
    const told = readTold(member(event, "usage"));
    if (told) sink.usage(told);
    sink.ended(true, completed >= wanted);
    if (completed >= wanted) sink.markEnd();
  };
  const read = (event: unknown): EventKind => {
    const type = stringOf(member(event, "type")) ?? "";
    if (type === "error" || member(event, "error")) {
      sink.error(readError(event) ?? namelessError);
      return "error";
    }
    if (type.endsWith(".partial_image") || type.endsWith(".completed")) sink.content(0);
    readMade(event, sink);
    if (type.endsWith(".completed")) readCompleted(event);
    return undefined;
  };
  return { read: ({ json }) => read(json), end: () => undefined };
}

/** Reads a whole answer: as many images as it holds. */
function readReply(body: unknown, sink: AnswerSink): boolean {
  const data = member(body, "data");
  if (!Array.isArray(data)) return false;
  if (data.length > 0) sink.content(0);
  sink.counted("images", BigInt(data.length));
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

export const answers: AnswerFormat = {
  createStreamReader,
  readReply,
  createPassing: (_envelope, clean) => passErrors(clean),
};
