import { timestampDate, timestampMs, type Timestamp } from "@bufbuild/protobuf/wkt";
import { LineKind, type LedgerLine } from "#proto/billing/v1/billing_pb.ts";
import { RecordKind, type UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { costNanos, type Units } from "#shared/money/pricing.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { endCauseWords, usageSourceWords } from "../../html/call-words.ts";
import { usd } from "../../html/amounts.ts";
import { figure, figureTable, input } from "../../html/controls.ts";
import { copyButton } from "../../html/copy-button.ts";
import { createForm, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { isArchived, linesTable } from "../../html/ledger-lines.ts";
import type { Deps } from "../../deps.ts";
import {
  accountRoute,
  again,
  get,
  page,
  redirect,
  type PageResponse,
  type AccountRequest,
  type Route,
} from "../../html/route.ts";
import { bucketNames, bucketsInUse, count, exactUsd } from "../../html/units.ts";

/** One call by its request id: what support opens. */
export function callRoutes(deps: Deps): Route[] {
  return [
    accountRoute(get("/calls"), "usage.view", async (request) => search(request)),
    accountRoute(get("/calls/:rid"), "usage.view", (request) => show(deps, request)),
  ];
}

const wrongId = "Give a request id such as 019a9f3c-0000-7000-8000-000000000001.";

function search(request: AccountRequest): PageResponse {
  const given = createForm({ rid: request.query("rid") });
  const rid = given.typed("rid").toLowerCase();
  if (rid === "") return page("Find a call", searchForm(request, given));
  if (ridTimeMs(rid) !== undefined) return redirect(`/accounts/${request.accountId}/calls/${rid}`);
  given.refuse("rid", wrongId);
  return again("Find a call", searchForm(request, given));
}

const searchForm = ({ accountId }: AccountRequest, given: Form): Markup =>
  html`<form method="get" action="/accounts/${accountId}/calls">
    ${input(given, {
      name: "rid",
      label: "Request id",
      hint: "Found in the X-Request-Id header of every API response.",
      maxLength: 100,
    })}
    <p><button>Find</button></p>
  </form>`;

async function show(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId, parameters } = request;
  const rid = parameters["rid"] ?? "";
  const lines = ridTimeMs(rid) === undefined ? undefined : await findLines(deps, accountId, rid);
  if (lines === "archived") return archivedCall;
  if (!lines) return notFound(request);
  const call = lines.findLast(({ usage }) => usage)?.usage;
  const keys = call ? await deps.authQuota.getKeys({ keyIds: [call.keyId] }) : { keys: [] };
  const key = keys.keys.find((one) => one.accountId === accountId);
  const none = html`<p>Its usage is not in the ledger: nothing was charged.</p>`;
  return page(
    "Call",
    html`<p>Request id: <code id="request-id">${rid}</code> ${copyButton("request-id", "the request id")}</p>
      ${call ? about(request, { call, keyName: key?.name }) : none}${call && priceTable(call)}
      ${call && moneyList(request, call, lines)}
      <h2>Ledger</h2>
      ${linesTable("Ledger lines of this call, oldest first", lines)}`,
  );
}

type CallLookup = LedgerLine[] | "archived" | undefined;

async function findLines({ billing }: Deps, accountId: string, rid: string): Promise<CallLookup> {
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

function notFound(request: AccountRequest): PageResponse {
  const given = createForm({ rid: request.parameters["rid"] });
  const body = html`<p>Nothing is booked for this call in this account. Possible reasons:</p>
    <ul>
      <li>it is still running or has just ended: calls are booked moments after they end, so try again soon;</li>
      <li>it was refused before it reached a provider: then nothing is charged and nothing is stored;</li>
      <li>it was made with a key of another account;</li>
      <li>the id is incomplete: a full one looks like 019a9f3c-0000-7000-8000-000000000001.</li>
    </ul>
    ${searchForm(request, given)}`;
  return page("Call not found", body, { status: 404 });
}

const isOperator = ({ roles }: AccountRequest): boolean => roles.includes("operator");

type Call = { call: UsageRecorded; keyName: string | undefined };

function about(request: AccountRequest, { call, keyName }: Call): Markup {
  const { startedAt, firstByteAt, endedAt } = call;
  const provisional = html`<p class="problems">
    The final record of this call has not come: these are the last figures.
  </p>`;
  return html`${call.kind === RecordKind.PROVISIONAL && provisional}
    <h2>Request</h2>
    <dl>
      ${figure("Endpoint", call.endpoint)} ${figure("Requested model", call.modelRequested)}
      ${figure("Served model", call.modelServed || "–")}
      ${isOperator(request) && figure("Upstream", call.upstream || "none was reached")}
      ${figure("Key", keyName ? `${keyName} (${call.keyId})` : call.keyId)}
      ${figure("Streamed", call.streamed ? "yes" : "no")}
    </dl>
    <h2>Result</h2>
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
  return html`<time datetime="${text}" data-utc>${text.slice(0, 23).replace("T", " ")}</time>`;
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

function moneyList(
  request: AccountRequest,
  { heldNanos, upstreamCostNanos }: UsageRecorded,
  lines: LedgerLine[],
): Markup {
  const sumOf = (some: LedgerLine[]): bigint => some.reduce((sum, { amountNanos }) => sum + amountNanos, 0n);
  const charged = -sumOf(lines.filter(isCharge));
  const others = lines.filter((line) => !isCharge(line));
  const upstreamCost = upstreamCostNanos === undefined ? "not known" : usd(upstreamCostNanos);
  return html`<dl>
    ${figure("Final hold", usd(heldNanos))} ${figure("Charged", usd(charged))}
    ${others.length > 0 && figure("Given back or corrected", usd(sumOf(others)))}
    ${isOperator(request) && figure("Cost at the provider", upstreamCost)}
  </dl>`;
}
