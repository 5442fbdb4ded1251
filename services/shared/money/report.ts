import { createPrivateKey, createPublicKey, sign, verify, type KeyObject } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Finding, type ReportSchema } from "#proto/billing/v1/billing_pb.ts";
import { formatUsd } from "./money.ts";

/** What one check of a reconciliation has found; `differenceNanos` is never negative. */
export type ReportLine = {
  check: string;
  name: string;
  finding: Finding;
  summary: string;
  differenceNanos: bigint;
  items: string[];
};

/** What a reconciliation of a span of time has found. `day` is set for a report of a day. */
export type Report = {
  day: string | undefined;
  fromMs: number;
  untilMs: number;
  /** When it was made. */
  nowMs: number;
  lines: ReportLine[];
};

/** A report as it is kept: the content is what the signature is of. */
export type KeptReport = { content: Buffer; signature: Buffer | undefined; publicKey: string | undefined };

/** The content of a kept report. */
type Content = {
  report: "reconciliation.v1";
  day: string;
  made_at: string;
  from: string;
  until: string;
  unexplained_nanos: string;
  unexplained_usd: string;
  lines: ContentLine[];
};

type ContentLine = {
  check: string;
  name: string;
  finding: string;
  summary: string;
  difference_nanos: string;
  items: string[];
};

/** Nano-USD that no line explains. Differences have no signs, so that none makes up for another. */
function unexplainedNanos(lines: readonly ReportLine[]): bigint {
  return lines.reduce((sum, { differenceNanos }) => sum + differenceNanos, 0n);
}

/** The content to sign and keep: JSON without spaces, its fields in one order, amounts as decimal strings. */
export function contentOf({ day, fromMs, untilMs, nowMs, lines }: Report): Buffer {
  const unexplained = unexplainedNanos(lines);
  const content: Content = {
    report: "reconciliation.v1",
    day: day ?? "",
    made_at: new Date(nowMs).toISOString(),
    from: new Date(fromMs).toISOString(),
    until: new Date(untilMs).toISOString(),
    unexplained_nanos: String(unexplained),
    unexplained_usd: formatUsd(unexplained),
    lines: lines.map(({ check, name, finding, summary, differenceNanos, items }) => ({
      check,
      name,
      finding: findingWord(finding),
      summary,
      difference_nanos: String(differenceNanos),
      items,
    })),
  };
  return Buffer.from(JSON.stringify(content));
}

const findingWords: Record<number, string> = {
  [Finding.UNSPECIFIED]: "unspecified",
  [Finding.RIGHT]: "right",
  [Finding.LISTED]: "listed",
  [Finding.WRONG]: "wrong",
  [Finding.UNCHECKED]: "unchecked",
};

const findings = new Map(Object.entries(findingWords).map(([number, word]) => [word, Number(number) as Finding]));

/** A finding as reports and metrics write it. */
export function findingWord(finding: Finding): string {
  return findingWords[finding] ?? "unknown";
}

/** A kept content as a message. Throws on what contentOf has not written. */
export function toMessage({ content, signature, publicKey }: KeptReport): MessageInitShape<typeof ReportSchema> {
  const { day, made_at, unexplained_nanos, lines } = JSON.parse(content.toString()) as Content;
  return {
    day,
    madeAt: timestampFromMs(Date.parse(made_at)),
    unexplainedNanos: BigInt(unexplained_nanos),
    lines: lines.map(({ check, name, finding, summary, difference_nanos, items }) => ({
      check,
      name,
      finding: findings.get(finding) ?? Finding.UNSPECIFIED,
      summary,
      differenceNanos: BigInt(difference_nanos),
      items,
    })),
    content,
    ...(signature && { signature }),
    ...(publicKey !== undefined && { publicKey }),
  };
}

/** Whether a kept report was made after that instant, and with all its checks. */
export function isComplete({ content }: KeptReport, overMs: number): boolean {
  const { made_at, lines } = JSON.parse(content.toString()) as Content;
  return Date.parse(made_at) >= overMs && lines.every(({ finding }) => finding !== "unchecked");
}

/** Reads a PKCS #8 PEM. Throws unless it is an Ed25519 private key. */
export function readSigningKey(pem: string): KeyObject {
  const key = createPrivateKey(pem);
  if (key.asymmetricKeyType !== "ed25519") throw new Error("the key of reports must be an Ed25519 key");
  return key;
}

/** Signs a content (Ed25519); without a key it is kept unsigned. */
export function signContent(content: Buffer, key: KeyObject | undefined): KeptReport {
  if (!key) return { content, signature: undefined, publicKey: undefined };
  const publicKey = createPublicKey(key).export({ type: "spki", format: "pem" }).toString();
  return { content, signature: sign(null, content, key), publicKey };
}

/** Whether the signature is of this content and by the holder of this public key (SPKI PEM). */
export function isSignedBy(content: Uint8Array, signature: Uint8Array, publicKeyPem: string): boolean {
  return verify(null, content, createPublicKey(publicKeyPem), signature);
}
