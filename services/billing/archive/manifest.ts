import type { KeyObject } from "node:crypto";
import { isSignedBy, signContent } from "#shared/money/report.ts";
import { ArchiveFault } from "./place.ts";
import type { Totals } from "./tally.ts";

/** A file of the archive. */
export type ArchivedFile = { name: string; bytes: number; lines: number; sha256: string };

/** What is signed about an archived day: its files, and what their lines add up to. */
export type ArchiveContent = {
  archive: "ledger-day.v1";
  day: string;
  made_at: string;
  lines: string;
  amount_nanos: string;
  accounts: number;
  kinds: { kind: number; lines: string; amount_nanos: string }[];
  lines_sha256: string;
  accounts_sha256: string;
  files: ArchivedFile[];
};

/** A signed content. */
export type Manifest = { content: Buffer; signature: Buffer; publicKey: string };

/** Where a day's manifest is kept. It is written last: a day without one is not whole. */
export const manifestOf = (day: string): string => `${day}/manifest.json`;

/** Says what a day's files and lines are, and signs it. */
export function signDay(
  { day, madeAtMs, totals, files }: { day: string; madeAtMs: number; totals: Totals; files: ArchivedFile[] },
  key: KeyObject,
): Manifest {
  const content: ArchiveContent = {
    archive: "ledger-day.v1",
    day,
    made_at: new Date(madeAtMs).toISOString(),
    ...figuresOf(totals),
    files,
  };
  const { content: signed, signature, publicKey } = signContent(Buffer.from(JSON.stringify(content)), key);
  if (!signature || publicKey === undefined) throw new Error("signed by nobody");
  return { content: signed, signature, publicKey };
}

/** Totals as a content has them. */
function figuresOf({ lines, amountNanos, accounts, kinds, linesSha256, accountsSha256 }: Totals) {
  return {
    lines: String(lines),
    amount_nanos: String(amountNanos),
    accounts,
    kinds: kinds.map((sum) => ({
      kind: sum.kind,
      lines: String(sum.lines),
      amount_nanos: String(sum.amountNanos),
    })),
    lines_sha256: linesSha256,
    accounts_sha256: accountsSha256,
  };
}

/** Whether lines are those of a content, whatever files they are in. */
export function isOf({ archive, day, made_at, files, ...figures }: ArchiveContent, totals: Totals): boolean {
  return JSON.stringify(figures) === JSON.stringify(figuresOf(totals));
}

/** Reads a signed content. Throws on one of another kind or day. */
export function readArchiveContent(content: Uint8Array, day: string): ArchiveContent {
  const read = JSON.parse(Buffer.from(content).toString()) as ArchiveContent;
  if (read.archive !== "ledger-day.v1" || read.day !== day) throw new ArchiveFault(`not the archive of ${day}`);
  return read;
}

// As the files of the daily close have it.
type ManifestFile = { content: string; signature: string; publicKey: string };

/** A manifest as the text of its file. */
export function encodeManifest({ content, signature, publicKey }: Manifest): string {
  const file: ManifestFile = { content: content.toString(), signature: signature.toString("base64"), publicKey };
  return `${JSON.stringify(file, null, 2)}\n`;
}

/** Reads such a text. Throws unless the key that it names has signed it; whose key that is, others must know. */
export function readManifest(text: string): Manifest {
  const file = JSON.parse(text) as ManifestFile;
  const content = Buffer.from(file.content);
  const signature = Buffer.from(file.signature, "base64");
  if (!isSignedBy(content, signature, file.publicKey)) throw new ArchiveFault("the manifest is not signed by its key");
  return { content, signature, publicKey: file.publicKey };
}
