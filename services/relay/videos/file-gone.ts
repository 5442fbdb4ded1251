import { videoDialectOf } from "#shared/catalog/video-dialects.ts";
import type { FilePlace, OpenFile } from "./open-file.ts";
import type { Answer } from "../upstream/send.ts";

const readBytes = 4_096;

/** The beginning of an answer's body; what came until it broke. */
function readBeginning(answer: Answer): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const chunks: Buffer[] = [];
  let bytes = 0;
  const finish = (): void => resolve(Buffer.concat(chunks).toString("latin1", 0, readBytes));
  const data = (chunk: Buffer): void => {
    if (bytes < readBytes) chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= readBytes) finish();
  };
  answer.consume({ data, end: finish, fail: finish });
  return promise;
}

/**
 * Whether an answer without a file means that the provider keeps it no longer. Google has 403 for files that it has
 * deleted, and only the words tell that from an account that it refuses:
 * https://github.com/google-gemini/deprecated-generative-ai-python/issues/692
 */
export async function isFileGone({ answer, isOwn }: OpenFile, { upstream }: FilePlace): Promise<boolean> {
  const { status } = answer;
  if (status === 404 || status === 410) return true;
  if (status !== 403 || !isOwn || videoDialectOf(upstream) !== "gemini-videos") return false;
  return /\bmay not exist\b/i.test(await readBeginning(answer));
}
