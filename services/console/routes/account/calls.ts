import { timestampDate, timestampMs, type Timestamp } from "@bufbuild/protobuf/wkt";
import { LineKind, type LedgerLine } from "#proto/billing/v1/billing_pb.ts";
import { RecordKind, type UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { costNanos, type Units } from "#shared/money/pricing.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { endCauseWords, usageSourceWords } from "../../html/call-words.ts";
import { figure, figureTable, input, usd } from "../../html/controls.ts";
import { copyButton } from "../../html/copy-button.ts";
import { createForm, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { isArchived, linesTable } from "../../html/ledger-lines.ts";
import type { Parts } from "../../parts.ts";
import { accountRoute, again, get, page, redirect, type Answer, type InAccount, type Route } from "../../html/route.ts";
import { bucketNames, bucketsInUse, count, exactUsd } from "../../html/units.ts";

/** One call by its request id: what support opens. */
export function callRoutes(parts: Parts): Route[] {
  return [
    accountRoute(get("/calls"), "usage.view", async (asked) => search(asked)),
    accountRoute(get("/calls/:rid"), "usage.view", (asked) => show(parts, asked)),
  ];
}

const wrongId = "Give a request id such as 019a9f3c-0000-7000-8000-000000000001.";

function search(asked: InAccount): Answer {
  const given = createForm({ rid: asked.query("rid") });
  const rid = given.typed("rid").toLowerCase();
  if (rid === "") return page("Find a call", searchForm(asked, given));
  if (ridTimeMs(rid) !== undefined) return redirect(`/accounts/${asked.accountId}/calls/${rid}`);
  given.refuse("rid", wrongId);
  return again("Find a call", searchForm(asked, given));
}

const searchForm = ({ accountId }: InAccount, given: Form): Markup =>
  html`<form method="get" action="/accounts/${accountId}/calls">
    ${input(given, {
      name: "rid",
      label: "Request id",
      hint: "Every answer of the API has it in its header X-Request-Id.",
      most: 100,
    })}
    <p><button>Find</button></p>
  </form>`;

async function show(parts: Parts, asked: InAccount): Promise<Answer> {
  const { accountId, parameters } = asked;
  const rid = parameters["rid"] ?? "";
  const lines = ridTimeMs(rid) === undefined ? undefined : await findLines(parts, accountId, rid);
  if (lines === "archived") return archivedCall;
  if (!lines) return notFound(asked);
  const call = lines.findLast(({ usage }) => usage)?.usage;
  const keys = call ? await parts.authQuota.getKeys({ keyIds: [call.keyId] }) : { keys: [] };
  const key = keys.keys.find((one) => one.accountId === accountId);
  const none = html`<p>What it has used is not in the ledger: nothing was charged for it.</p>`;
  return page(
    "Call",
    html`<p>Request id: <code id="request-id">${rid}</code> ${copyButton("request-id", "the request id")}</p>
      ${call ? about(asked, { call, keyName: key?.name }) : none}${call && priceTable(call)}
      ${call && moneyList(asked, call, lines)}
      <h2>Ledger</h2>
      ${linesTable("All that is booked for this call, oldest first", lines)}`,
  );
}

type Found = LedgerLine[] | "archived" | undefined;

async function findLines({ billing }: Parts, accountId: string, rid: string): Promise<Found> {
  try {
    const call = await billing.getCall({ rid, accountId });
    return call.lines;
  } catch (error) {
    if (isArchived(error)) return "archived";
    if (error instanceof ServiceError && error.code === "not_found") return undefined;
    throw error;
  }
}

/** For a call that is older than the lines in the ledger. */
export const archivedCall = page(
  "Call in the archive",
  html`<p>
    What was booked on the day of this call is in the archive and not in the ledger any more. It can be seen once the
    archive is brought back.
  </p>`,
  { status: 409 },
);

function notFound(asked: InAccount): Answer {
  const given = createForm({ rid: asked.parameters["rid"] });
  const body = html`<p>Nothing is booked for this call in this account. It may be that</p>
    <ul>
      <li>it is running, or has ended just now: it is booked some moments after its end, so try again soon;</li>
      <li>it was refused before it was sent to a provider: then nothing is charged, and nothing is kept of it;</li>
      <li>it was made with a key of another account;</li>
      <li>the id is not whole: it looks like 019a9f3c-0000-7000-8000-000000000001.</li>
    </ul>
    ${searchForm(asked, given)}`;
  return page("Call not found", body, { status: 404 });
}

const isOperator = ({ roles }: InAccount): boolean => roles.includes("operator");

type Call = { call: UsageRecorded; keyName: string | undefined };

function about(asked: InAccount, { call, keyName }: Call): Markup {
  const { startedAt, firstByteAt, endedAt } = call;
  const provisional = html`<p class="problems">
    The final record of this call has not come: these are the last figures.
  </p>`;
  return html`${call.kind === RecordKind.PROVISIONAL && provisional}
    <h2>What was asked</h2>
    <dl>
      ${figure("Endpoint", call.endpoint)} ${figure("Model asked for", call.modelRequested)}
      ${figure("Model that answered", call.modelServed || "–")}
      ${isOperator(asked) && figure("Upstream", call.upstream || "none was reached")}
      ${figure("Key", keyName ? `${keyName} (${call.keyId})` : call.keyId)}
      ${figure("Streamed", call.streamed ? "yes" : "no")}
    </dl>
    <h2>How it went</h2>
    <dl>
      ${figure("Admitted", precise(startedAt))}
      ${figure("First byte of the answer", html`${precise(firstByteAt)}${after(startedAt, firstByteAt)}`)}
      ${figure("Ended", html`${precise(endedAt)}${after(startedAt, endedAt)}`)}
      ${figure("HTTP status", call.httpStatus === 0 ? "–" : String(call.httpStatus))}
      ${figure("How it ended", endCauseWords(call.endCause))}
      ${figure("Where the counts come from", usageSourceWords(call.usageSource))}
    </dl>`;
}

/** An instant to the millisecond. */
function precise(at: Timestamp | undefined): Markup | string {
  if (!at) return "–";
  const text = timestampDate(at).toISOString();
  return html`<time datetime="${text}">${text.slice(0, 23).replace("T", " ")}</time>`;
}

function after(from: Timestamp | undefined, at: Timestamp | undefined): string {
  return from && at ? `, after ${count(timestampMs(at) - timestampMs(from))} ms` : "";
}

/** What each bucket came to: the sum is exact, and rounded up once. */
function priceTable({ usage, unitPriceNanos, priceVersion }: UsageRecorded): Markup {
  const prices: Units = unitPriceNanos ?? {};
  const buckets = bucketsInUse([usage]);
  const caption = `Price by ${priceVersion || "an unknown price version"}`;
  if (!usage || buckets.length === 0)
    return html`<h2>Price</h2>
      <p>Nothing was used, so nothing is charged.</p>`;
  const lines = buckets.map((bucket) => {
    const [units, price] = [usage[bucket], prices[bucket] ?? 0n];
    return { name: bucketNames[bucket], units, price, millionths: units * price };
  });
  const sum = lines.reduce((all, { millionths }) => all + millionths, 0n);
  return html`<h2>Price</h2>
    ${figureTable(
      caption,
      ["Used", "Units", "Price per 1,000,000", "Amount"],
      html`<tbody>
          ${lines.map(
            ({ name, units, price, millionths }) =>
              html`<tr>
                <th scope="row">${name}</th>
                <td>${count(units)}</td>
                <td>${usd(price)}</td>
                <td>${exactUsd(millionths)}</td>
              </tr>`,
          )}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row" colspan="3">Sum</th>
            <td>${exactUsd(sum)}</td>
          </tr>
          <tr>
            <th scope="row" colspan="3">Cost: the sum, rounded up once to nine decimals</th>
            <td>${usd(costNanos(usage, prices))}</td>
          </tr>
        </tfoot>`,
    )}`;
}

const isCharge = ({ kind }: LedgerLine): boolean => kind <= LineKind.FINAL_ADJUSTMENT;

function moneyList(asked: InAccount, { heldNanos, upstreamCostNanos }: UsageRecorded, lines: LedgerLine[]): Markup {
  const sumOf = (some: LedgerLine[]): bigint => some.reduce((sum, { amountNanos }) => sum + amountNanos, 0n);
  const charged = -sumOf(lines.filter(isCharge));
  const others = lines.filter((line) => !isCharge(line));
  const upstreamCost = upstreamCostNanos === undefined ? "not known" : usd(upstreamCostNanos);
  return html`<dl>
    ${figure("Held for it at its end", usd(heldNanos))} ${figure("Charged", usd(charged))}
    ${others.length > 0 && figure("Given back or corrected", usd(sumOf(others)))}
    ${isOperator(asked) && figure("Cost at the provider", upstreamCost)}
  </dl>`;
}
