import { LineKind, type GetStatementResponse, type LedgerLine } from "#proto/billing/v1/billing_pb.ts";
import { accountTable } from "#shared/money/ledger-rows.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { lineKinds, lineKindWords } from "../../html/call-words.ts";
import { usd } from "../../html/amounts.ts";
import { choice, figureTable, input, nextPage } from "../../html/controls.ts";
import { csvFile } from "../../html/csv-file.ts";
import { dayOf, lastDayOf, lastMonth, readSpan, thisMonth, type Span } from "../../html/days.ts";
import { createForm, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { isArchived, linesTable, signedUsd } from "../../html/ledger-lines.ts";
import type { Deps } from "../../deps.ts";
import { accountRoute, get, page, type PageResponse, type AccountRequest, type Route } from "../../html/route.ts";
import { count } from "../../html/units.ts";
import { readStatement } from "./statement.ts";

const pageSize = 50;
const fields = ["from", "until", "kind"] as const;

/** The statement of an account, its ledger lines, and these as a file. */
export function ledgerRoutes(deps: Deps): Route[] {
  return [
    accountRoute(get("/ledger"), "ledger.view", (request) => show(deps, request, readFilter(deps, request))),
    accountRoute(get("/ledger.csv"), "ledger.view", (request) => download(deps, request)),
  ];
}

type Filter = { given: Form; span: Span; kind: LineKind };

/** The filters of the address; what is wrong in them is noted, and the usual is taken. */
function readFilter({ clock }: Deps, request: AccountRequest): Filter {
  const given = createForm(Object.fromEntries(fields.map((name) => [name, request.query(name)])));
  const usual = thisMonth(clock.nowMs());
  const span = readSpan(given, usual);
  const typed = given.typed("kind") || "0";
  const kind = kindChoices.some(([code]) => code === typed) ? (Number(typed) as LineKind) : undefined;
  if (kind === undefined) given.refuse("kind", "Choose a kind of line that is in the list.");
  return span && kind !== undefined ? { given, span, kind } : { given, span: usual, kind: LineKind.UNSPECIFIED };
}

const kindChoices = Object.entries(lineKinds);

async function show(deps: Deps, request: AccountRequest, filter: Filter): Promise<PageResponse> {
  const { given, span, kind } = filter;
  const path = `/accounts/${request.accountId}/ledger`;
  const [statement, lines] = await Promise.all([readStatement(deps, request, span), readLines(deps, request, filter)]);
  const shown = lines.slice(0, pageSize);
  const last = lines.length > pageSize ? shown.at(-1) : undefined;
  const chosen = { from: dayOf(span.from), until: lastDayOf(span) };
  const address = new URLSearchParams({ ...chosen, kind: String(kind) }).toString();
  const isWrong = given.errors.size > 0;
  const wrong = html`<p class="problems" role="alert">
    Some filters are invalid: ${[...given.errors.values()].join(" ")} Showing this month instead.
  </p>`;
  return page(
    "Ledger",
    html`${isWrong && wrong}${presets(path, deps.clock.nowMs())}${filterForm(filter, path)}
      <h2>Statement</h2>
      ${statement ? statementTable(statement, span) : archived}
      ${statement && html`<p><a href="${path}.pdf?${new URLSearchParams(chosen).toString()}">Download as PDF</a></p>`}
      <h2>Lines</h2>
      ${linesTable("Lines booked in this time, newest first", shown)}
      ${last && nextPage(`${path}?${address}&before=${last.lineId}`)}
      <p><a href="${path}.csv?${new URLSearchParams(chosen).toString()}">Download all lines of these days as CSV</a></p>
      <p class="hint">
        The statement goes by the time of booking. The file goes by days, and a call is on the day on which it began.
      </p>`,
    isWrong ? { status: 422 } : {},
  );
}

const archived = html`<p class="problems">
  Lines of this time are in the archive and not in the ledger any more. Choose later days, or ask your operator.
</p>`;

/** Lines of the span, newest first, one more than a page shows. Ids of lines hold the time of their booking. */
async function readLines({ billing }: Deps, request: AccountRequest, { span, kind }: Filter): Promise<LedgerLine[]> {
  const { accountId } = request;
  const before = request.query("before");
  const beforeLineId = ridTimeMs(before) === undefined ? firstIdAt(span.until) : before;
  const { lines } = await billing.listLedgerLines({ accountId, kind, beforeLineId, limit: pageSize + 1 });
  return lines.filter(({ lineId }) => (ridTimeMs(lineId) ?? 0) >= span.from.getTime());
}

/** The least id (UUIDv7) of that millisecond. */
function firstIdAt(at: Date): string {
  const time = at.getTime().toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`;
}

function presets(path: string, nowMs: number): Markup {
  const link = (words: string, span: Span): Markup => {
    const days = new URLSearchParams({ from: dayOf(span.from), until: lastDayOf(span) });
    return html`<li><a href="${path}?${days.toString()}">${words}</a></li>`;
  };
  return html`<nav aria-label="Time of the statement">
    <ul>
      ${link("This month", thisMonth(nowMs))} ${link("Last month", lastMonth(nowMs))}
    </ul>
  </nav>`;
}

function filterForm({ given, span, kind }: Filter, path: string): Markup {
  return html`<form method="get" action="${path}" class="filters">
    ${input(given, { name: "from", label: "First day", type: "date", value: dayOf(span.from) })}
    ${input(given, { name: "until", label: "Last day", type: "date", value: lastDayOf(span) })}
    ${choice(given, { name: "kind", label: "Lines", value: String(kind), choices: kindChoices })}
    <p><button class="outline">Show</button></p>
  </form>`;
}

function statementTable(statement: GetStatementResponse, span: Span): Markup {
  const { openingBalanceNanos, closingBalanceNanos, sums, isFinal } = statement;
  const caption = `${dayOf(span.from)} to ${lastDayOf(span)}, in USD`;
  const row = (name: string, lines: string, amount: string): Markup =>
    html`<tr>
      <th scope="row">${name}</th>
      <td>${lines}</td>
      <td>${amount}</td>
    </tr>`;
  return html`${figureTable(
      caption,
      ["What", "Lines", "Amount"],
      html`<tbody>
          ${row("Balance before", "", usd(openingBalanceNanos))}
          ${sums.map(({ kind, lines, amountNanos }) => row(lineKindWords(kind), count(lines), signedUsd(amountNanos)))}
        </tbody>
        <tfoot>
          ${row("Balance after", "", usd(closingBalanceNanos))}
        </tfoot>`,
    )}
    <p>
      ${isFinal ? "This statement is final." : "More may be booked within this time: this statement is not final."}
    </p>`;
}

async function download(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const filter = readFilter(deps, request);
  // A file with something else in it than was asked for would pass for the right one.
  if (filter.given.errors.size > 0) return show(deps, request, filter);
  const { accountId, gone } = request;
  const { span } = filter;
  const days = { fromDay: dayOf(span.from), untilDay: dayOf(span.until) };
  const name = `ledger-${accountId}-${days.fromDay}-to-${lastDayOf(span)}.csv`;
  const lines = linesOf(deps.billingStreams.exportLines({ accountId, ...days }, gone));
  const { header, rows } = accountTable;
  try {
    return await csvFile({ log: deps.log, gone }, { name, header, rows: rows(lines) });
  } catch (error) {
    if (isArchived(error)) return page("Ledger", archived, { status: 409 });
    throw error;
  }
}

async function* linesOf(pages: AsyncIterable<{ lines: LedgerLine[] }>): AsyncGenerator<LedgerLine> {
  for await (const { lines } of pages) yield* lines;
}
