import { createReadStream, createWriteStream } from "node:fs";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { DayClose } from "#proto/billing/v1/billing_pb.ts";
import {
  type CloseContent,
  closeColumns,
  type CloseLine,
  createCloseTally,
  hashOfContent,
  readCloseContent,
} from "#shared/money/day-close.ts";
import { isSignedBy } from "#shared/money/report.ts";

/** A day's signature as a file: what is signed as it was signed, in base64 what is no text. */
type SignatureFile = { content: string; signature: string; publicKey: string };

/** The file of lines that belongs to a signature. */
const linesFileOf = (signatureFile: string): string => signatureFile.replace(/\.json$/, ".csv");

/**
 * Writes a day into `base`.csv, and its signature into `base`.json, last: a day without one is not whole. Throws when
 * the lines are not those of the content.
 */
export async function writeClose(base: string, close: DayClose, lines: AsyncIterable<string>): Promise<CloseContent> {
  const content = readCloseContent(close.content);
  const part = `${base}.csv.part`;
  const tally = createCloseTally(content.day);
  try {
    await pipeline(Readable.from(checked(lines, tally.add)), createWriteStream(part));
    requireTotals(content, tally.end());
    await rename(part, `${base}.csv`);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
  const file: SignatureFile = {
    content: Buffer.from(close.content).toString(),
    signature: Buffer.from(close.signature).toString("base64"),
    publicKey: close.publicKey,
  };
  await writeFile(`${base}.json`, `${JSON.stringify(file, null, 2)}\n`);
  return content;
}

async function* checked(lines: AsyncIterable<string>, add: (line: string) => unknown): AsyncGenerator<string> {
  let isHeader = true;
  for await (const line of lines) {
    if (isHeader) requireHeader(line);
    else add(line);
    isHeader = false;
    yield `${line}\n`;
  }
}

function requireHeader(line: string): void {
  if (line !== closeColumns.join(",")) throw new Error("the file has other columns than this version knows");
}

function requireTotals(content: CloseContent, totals: Partial<CloseContent>): void {
  const wrong = Object.entries(totals).filter(([name, value]) => content[name as keyof CloseContent] !== value);
  if (wrong.length > 0) throw new Error(`not what was signed: ${wrong.map(([name]) => name).join(", ")}`);
}

/** A day that was verified: what was signed, and the hash by which the next day names it. */
export type VerifiedDay = { content: CloseContent; contentHash: string };

/**
 * Reads a day from the file of its signature and the file of lines beside it, and gives each line to `onLine`. Throws
 * unless the content is signed by the key (SPKI PEM) and the lines are its own, each of which adds up.
 */
export async function verifyClose(
  signatureFile: string,
  publicKey: string,
  onLine: (line: CloseLine) => void = () => undefined,
): Promise<VerifiedDay> {
  const { content: text, signature } = JSON.parse(await readFile(signatureFile, "utf8")) as SignatureFile;
  const bytes = Buffer.from(text);
  if (!isSignedBy(bytes, Buffer.from(signature, "base64"), publicKey)) throw new Error("not signed by this key");
  const content = readCloseContent(bytes);
  const tally = createCloseTally(content.day);
  let isHeader = true;
  for await (const line of createInterface({ input: createReadStream(linesFileOf(signatureFile)) })) {
    if (isHeader) requireHeader(line);
    else onLine(tally.add(line));
    isHeader = false;
  }
  requireTotals(content, tally.end());
  return { content, contentHash: hashOfContent(bytes) };
}

/** What is wrong between a day and the one before it, as far as that is at hand; undefined: nothing. */
export function chainProblem({ content }: VerifiedDay, before: VerifiedDay | undefined): string | undefined {
  if (content.breaks > 0) return `${content.breaks} accounts do not open with the balance of ${content.previous_day}`;
  if (!before) return undefined;
  if (content.previous_day !== before.content.day) return `the day before it is missing`;
  return content.previous_content_sha256 === before.contentHash
    ? undefined
    : "it follows another close of the day before";
}
