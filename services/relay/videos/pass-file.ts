import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { requestIdHeaders } from "../http/respond.ts";
import type { Answer } from "../upstream/send.ts";

/** How the passing of a file ended. */
export type FileEnd = "complete" | "client_gone" | "upstream_cut" | "stalled" | "drained";

export type PassingFile = {
  answer: Answer;
  response: ServerResponse;
  rid: string;
  /** How long nothing may move. */
  idleMs: number;
};

/** A file under way: `cut` ends it from outside, `over` resolves when all is written or nothing more will be. */
export type FilePassing = { cut: (end: FileEnd) => void; over: Promise<FileEnd> };

const passedHeaders = [
  "content-type",
  "content-length",
  "content-range",
  "accept-ranges",
  "etag",
  "last-modified",
] as const satisfies (keyof IncomingHttpHeaders)[];

function headOf({ headers }: Answer, rid: string): Record<string, string | string[]> {
  const passed = passedHeaders.map((name) => [name, headers[name]]).filter(([, value]) => value !== undefined);
  return { ...(Object.fromEntries(passed) as Record<string, string | string[]>), ...requestIdHeaders(rid) };
}

/**
 * Carries a file from the provider to the caller, piece by piece: a caller who reads slowly pauses the provider, so
 * that no more than a piece of it is in memory. A file that breaks breaks the caller's connection, which is how it is
 * told from a whole one.
 */
export function passFile({ answer, response, rid, idleMs }: PassingFile): FilePassing {
  const { promise: over, resolve } = Promise.withResolvers<FileEnd>();
  let end: FileEnd = "client_gone";
  const cut = (why: FileEnd): void => {
    if (response.destroyed) return;
    end = why;
    response.destroy();
  };
  const timer = setTimeout(() => cut("stalled"), idleMs);
  response.once("close", () => {
    clearTimeout(timer);
    if (!response.writableFinished) answer.abort();
    resolve(response.writableFinished ? "complete" : end);
  });
  const resume = (): void => {
    timer.refresh();
    answer.resume();
  };
  response.writeHead(answer.status, headOf(answer, rid)).flushHeaders();
  answer.consume({
    data: (chunk) => {
      if (response.destroyed) return;
      timer.refresh();
      if (response.write(chunk)) return;
      answer.pause();
      response.once("drain", resume);
    },
    end: () => void response.end(),
    fail: () => cut("upstream_cut"),
  });
  return { cut, over };
}
