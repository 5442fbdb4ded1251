import { createHash } from "node:crypto";
import { UsageSchema } from "#proto/usage/v1/usage_pb.ts";
import { usageBuckets } from "./pricing.ts";

// Amounts as in the ledger: positive adds to the balance, so that a line adds up from left to right.
const sums = ["opening_nanos", "charges_nanos", "credits_nanos", "refunds_nanos", "corrections_nanos"] as const;
const figures = [...sums, "closing_nanos", "calls", "upstream_cost_nanos", "calls_without_upstream_cost"] as const;

export type CloseFigure = (typeof figures)[number];

/** The columns of a day's file, in their order; new ones come at its end. Units are those booked on the day. */
export const closeColumns: readonly string[] = [
  "day",
  "account_id",
  ...figures,
  ...usageBuckets.map((bucket) => UsageSchema.field[bucket].name),
];

/** What is signed about a day: totals of its file, the file's hash, and the hash of the content before it. */
export type CloseContent = Record<CloseFigure, string> & {
  close: "day.v1";
  day: string;
  made_at: string;
  accounts: number;
  /** SHA-256 of the file: the header and one line an account, each with a line feed. */
  file_sha256: string;
  previous_day: string;
  previous_content_sha256: string;
  /** Accounts whose opening balance is not their closing balance in the file before; must be 0. */
  breaks: number;
};

/** An account's figures of a day. */
export type CloseLine = { day: string; accountId: string; figures: Record<CloseFigure, bigint> };

/** Reads a line of a file. Throws when it does not add up or has another form. */
export function readCloseLine(text: string): CloseLine {
  const [day = "", accountId = "", ...cells] = text.split(",");
  const numbers = cells.map((cell) => (/^-?\d+$/.test(cell) ? BigInt(cell) : undefined));
  if (accountId === "" || numbers.includes(undefined) || numbers.length < figures.length) {
    throw new Error(`not a line of a daily close: ${text.slice(0, 100)}`);
  }
  const named = Object.fromEntries(figures.map((name, index) => [name, numbers[index]])) as CloseLine["figures"];
  const closing = sums.reduce((sum, name) => sum + named[name], 0n);
  if (closing !== named.closing_nanos) throw new Error(`${accountId} does not add up to its closing balance`);
  return { day, accountId, figures: named };
}

/** Adds up a file line by line. Each must be of the day, add up by itself, and come in the order of accounts. */
export function createCloseTally(day: string) {
  const hash = createHash("sha256").update(`${closeColumns.join(",")}\n`);
  const totals = Object.fromEntries(figures.map((name) => [name, 0n])) as Record<CloseFigure, bigint>;
  let accounts = 0;
  let last = "";
  return {
    add: (text: string): CloseLine => {
      const line = readCloseLine(text);
      if (line.day !== day) throw new Error(`${line.accountId} has a line of ${line.day}`);
      if (line.accountId <= last) throw new Error(`${line.accountId} is not in the order of accounts`);
      last = line.accountId;
      accounts += 1;
      for (const name of figures) totals[name] += line.figures[name];
      hash.update(`${text}\n`);
      return line;
    },
    /** To be called once, at the end. */
    end: (): Pick<CloseContent, CloseFigure | "day" | "accounts" | "file_sha256"> => ({
      day,
      accounts,
      ...(Object.fromEntries(figures.map((name) => [name, String(totals[name])])) as Record<CloseFigure, string>),
      file_sha256: hash.digest("hex"),
    }),
  };
}

/** The content to sign and keep: JSON without spaces, amounts as decimal strings. */
export function encodeClose(content: CloseContent): Buffer {
  return Buffer.from(JSON.stringify(content));
}

/** Reads a signed content. Throws on one of another kind. */
export function readCloseContent(content: Uint8Array): CloseContent {
  const read = JSON.parse(Buffer.from(content).toString()) as CloseContent;
  if (read.close !== "day.v1") throw new Error("not the content of a daily close");
  return read;
}

/** The name of a content, in the file of the day after it. */
export function hashOfContent(content: Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}
