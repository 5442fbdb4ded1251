import { createHash } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { Finding, type Report, type ReportLine, ReportSchema } from "#proto/billing/v1/billing_pb.ts";
import { isSignedBy, toMessage } from "#shared/money/report.ts";
import { linkCalls } from "../../html/call-link.ts";
import { usd } from "../../html/amounts.ts";
import { instant, table } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";

/** A report: first the money that nothing explains, then every check, then what is wrong or listed. */
export function reportBody(kept: Report): Markup {
  const report = asSigned(kept);
  const { day, madeAt, lines, unexplainedNanos } = report;
  const head = ["Check", "What is checked", "Found", "In words", "Difference"];
  return html`<p class="${unexplainedNanos === 0n ? "unexplained" : "unexplained wrong"}">
      Unexplained: <strong>${usd(unexplainedNanos)}</strong>
    </p>
    ${table(`${day === "" ? "Checks of what changed lately" : `Checks of ${day}`}`, head, lines.map(row))}
    ${lines.filter(({ items }) => items.length > 0).map(itemsOf)}
    <h2>Signature</h2>
    <p>Made ${madeAt ? instant(timestampDate(madeAt)) : "–"}.</p>
    ${signature(report)}`;
}

/** What is shown is what was signed, whatever else came with it. */
function asSigned(kept: Report): Report {
  if (kept.content.length === 0) return kept;
  const { content, signature: signed, publicKey } = kept;
  const message = toMessage({ content: Buffer.from(content), signature: Buffer.from(signed), publicKey });
  return create(ReportSchema, message);
}

const findings: Record<number, { words: string; style: string }> = {
  [Finding.RIGHT]: { words: "✓ right", style: "right" },
  [Finding.LISTED]: { words: "• explained and listed", style: "listed" },
  [Finding.WRONG]: { words: "✗ wrong", style: "wrong" },
  [Finding.UNCHECKED]: { words: "? not checked", style: "unchecked" },
};

function row({ check, name, finding, summary, differenceNanos }: ReportLine): Markup {
  const { words, style } = findings[finding] ?? { words: "not told", style: "unchecked" };
  return html`<tr>
    <th scope="row">${check}</th>
    <td>${name}</td>
    <td class="finding ${style}">${words}</td>
    <td>${summary}</td>
    <td>${differenceNanos === 0n ? "–" : usd(differenceNanos)}</td>
  </tr>`;
}

function itemsOf({ check, name, items }: ReportLine): Markup {
  return html`<h2>${check}: ${name}</h2>
    <ul>
      ${items.map((item) => html`<li>${accountChecks.has(check) ? linkAccount(item) : linkCalls(item)}</li>`)}
    </ul>`;
}

// Their items begin with the account, or with a key.
const accountChecks = new Set(["R1", "R5"]);

function linkAccount(item: string): Markup {
  const [accountId = ""] = /^[A-Za-z0-9_-]{1,64}(?=: )/.exec(item) ?? [];
  if (accountId === "" || accountId.startsWith("key_")) return html`${item}`;
  return html`<a href="/operator/accounts/${accountId}">${accountId}</a>${item.slice(accountId.length)}`;
}

function signature({ day, content, signature: signed, publicKey }: Report): Markup {
  if (content.length === 0) return html`<p>It is not stored, so it is not signed.</p>`;
  const file = (name: string): Markup => html`<li><a href="/operator/reports/${day}/${name}">${name}</a></li>`;
  if (signed.length === 0) {
    return html`<p>It is stored but <strong>not signed</strong>: billing has no key.</p>
      <ul>
        ${file("report.json")}
      </ul>`;
  }
  return html`<p>
      ${
        isValid({ content, signed, publicKey })
          ? "Signed (Ed25519) by the key that the report names:"
          : html`<strong>The signature is NOT VALID</strong> for the key that the report names:`
      }
      <code>${fingerprint(publicKey)}</code>. Compare it with the one you keep elsewhere: whoever can change reports can
      name another key.
    </p>
    <ul>
      ${file("report.json")} ${file("report.sig.base64")} ${file("public-key.pem")}
    </ul>`;
}

function isValid({
  content,
  signed,
  publicKey,
}: {
  content: Uint8Array;
  signed: Uint8Array;
  publicKey: string;
}): boolean {
  try {
    return isSignedBy(content, signed, publicKey);
  } catch {
    return false;
  }
}

/** As `openssl pkey -pubin -outform DER | sha256sum` tells it. */
function fingerprint(pem: string): string {
  const der = Buffer.from(pem.replaceAll(/-----[A-Z ]+-----|\s/g, ""), "base64");
  return `sha256:${createHash("sha256").update(der).digest("hex")}`;
}
