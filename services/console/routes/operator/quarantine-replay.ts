import { PassThrough } from "node:stream";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { ReplayResponse } from "#proto/billing/v1/billing_pb.ts";
import { usd } from "../../html/amounts.ts";
import { choice, figure, form, input } from "../../html/controls.ts";
import { linkCalls } from "../../html/call-link.ts";
import { html, type Markup } from "../../html/html.ts";
import type { Form } from "../../html/form.ts";
import { installationNavigation } from "../../html/installation-navigation.ts";
import type { Deps } from "../../deps.ts";
import { again, page, type PageResponse, type SignedInRequest } from "../../html/route.ts";
import { auditAround, actorOf } from "../../audit-log.ts";

const base = "/operator/quarantine";
const title = "Read the stream again";
const maxMs = 10 * 60_000;
const tellEveryMs = 1_000;
const maxRids = 100;

type Replay = { from?: Date; until?: Date; accountId: string; dryRun: boolean };

export const replayPage = (request: SignedInRequest): PageResponse => page(title, replayForm(request));

function replayForm(request: SignedInRequest): Markup {
  const hint = "UTC, such as 2027-01-31 or 2027-01-31 13:30.";
  const fields = html`${input(request.form, { name: "from", label: "From", hint, maxLength: 16, isOptional: true })}
  ${input(request.form, { name: "until", label: "Until", hint, maxLength: 16, isOptional: true })}
  ${input(request.form, { name: "account", label: "Account id", hint: "Empty: all.", maxLength: 64, isOptional: true })}
  ${choice(request.form, {
    name: "run",
    label: "Mode",
    choices: [
      ["dry", "Only tell what the ledger lacks"],
      ["book", "Book what the ledger lacks"],
    ],
  })}`;
  return html`${installationNavigation(base)}
    <p>
      The usage stream is read again, and what the ledger lacks is told or booked. What is booked already stays as it
      is, so this can be done any number of times. What billing has not read yet counts as missing, too.
    </p>
    ${form(request, { action: `${base}/replay`, button: "Start" }, fields)}`;
}

const instantPattern = /^(20\d\d|21\d\d)-\d\d-\d\d(?: \d\d:\d\d)?$/;

/** An instant to the minute, or midnight; undefined when there is none, with an error when it is wrong. */
function readInstant(given: Form, name: string): Date | undefined {
  const text = given.typed(name);
  if (text === "") return undefined;
  const at = new Date(`${text.replace(" ", "T")}${text.length === 10 ? "T00:00" : ""}Z`);
  const isInstant =
    instantPattern.test(text) && !Number.isNaN(at.getTime()) && at.toISOString().startsWith(text.replace(" ", "T"));
  return isInstant ? at : given.refuse(name, "Give a day, or a day and a time, such as 2027-01-31 13:30.");
}

function readReplay({ form: given }: SignedInRequest): Replay | undefined {
  const [from, until] = [readInstant(given, "from"), readInstant(given, "until")];
  const [accountId, run] = [given.typed("account"), given.typed("run")];
  if (from && until && until <= from) given.refuse("until", "Give a time after the first one.");
  if (!/^[\w-]{0,64}$/.test(accountId)) given.refuse("account", "Use at most 64 letters, digits, - or _.");
  if (run !== "dry" && run !== "book") given.refuse("run", "Choose what to do.");
  if (given.errors.size > 0) return undefined;
  return { accountId, dryRun: run === "dry", ...(from && { from }), ...(until && { until }) };
}

/** Reads the stream again and tells how far it is, for ten minutes at most and while somebody waits for it. */
export function replayNow(deps: Deps, request: SignedInRequest): PageResponse {
  const wanted = readReplay(request);
  if (!wanted) return again(title, replayForm(request));
  const body = html`${installationNavigation(base)}
    <p>
      ${wanted.dryRun ? "Nothing is booked." : "What the ledger lacks is booked."} Leaving this page ends it; it ends by
      itself after ${maxMs / 60_000} minutes.
    </p>`;
  return { kind: "stream", title, body, pieces: run(deps, request, wanted) };
}

/** The work goes on at its own pace: what it tells, at most a line a second, waits here until the browser takes it. */
function run(deps: Deps, request: SignedInRequest, wanted: Replay): AsyncIterable<Markup> {
  const lines = new PassThrough({ objectMode: true });
  const work = auditAround(deps, actorOf(request), deedOf(wanted), async () => {
    const { totals, rids } = await replay(
      deps,
      request.gone,
      wanted,
      (line) => void (lines.destroyed || lines.write(line)),
    );
    return { result: ending(wanted, totals, rids), after: { ...valuesOf(wanted), ...totalsOf(totals) } };
  });
  work.then(
    (last) => lines.end(last),
    (error: unknown) => {
      deps.log.error({ err: error }, "replay aborted");
      lines.end(
        html`<p class="problems">The replay was aborted. The part above is done; start again for the rest.</p>`,
      );
    },
  );
  return lines;
}

type ReplayResult = { totals: ReplayResponse | undefined; rids: string[] };

async function replay(
  { billingStreams, clock }: Deps,
  gone: AbortSignal,
  { from, until, accountId, dryRun }: Replay,
  tell: (line: Markup) => void,
): Promise<ReplayResult> {
  const over = AbortSignal.any([gone, AbortSignal.timeout(maxMs)]);
  const span = { ...(from && { from: timestampFromDate(from) }), ...(until && { until: timestampFromDate(until) }) };
  const rids: string[] = [];
  let totals: ReplayResponse | undefined;
  let toldAtMs = 0;
  for await (const response of billingStreams.replay({ ...span, accountId, dryRun })) {
    totals = response;
    rids.push(...response.missingRids.slice(0, maxRids - rids.length));
    if (over.aborted) break;
    if (response.isDone || clock.nowMs() - toldAtMs < tellEveryMs) continue;
    toldAtMs = clock.nowMs();
    tell(html`<p>${response.events} events read, ${response.missing} missing so far.</p>`);
  }
  return { totals, rids };
}

const valuesOf = ({ from, until, accountId, dryRun }: Replay) => ({
  from: from?.toISOString() ?? null,
  until: until?.toISOString() ?? null,
  account: accountId,
  dryRun,
});

const deedOf = (wanted: Replay) =>
  ({ action: "ledger.replay", target: "the usage stream", after: valuesOf(wanted) }) as const;

const totalsOf = (totals: ReplayResponse | undefined) => ({
  events: String(totals?.events ?? 0n),
  known: String(totals?.known ?? 0n),
  missing: String(totals?.missing ?? 0n),
  missingNanos: String(totals?.missingNanos ?? 0n),
  rejected: String(totals?.rejected ?? 0n),
  isWhole: totals?.isDone ?? false,
});

function ending({ dryRun }: Replay, totals: ReplayResponse | undefined, rids: string[]): Markup {
  if (!totals?.isDone) {
    return html`<p class="problems">The replay ended early. Start again, or choose a shorter period.</p>`;
  }
  const { events, known, missing, missingNanos, rejected } = totals;
  const figures: [string, Markup | string][] = [
    ["Events read", String(events)],
    ["In the ledger", String(known)],
    [dryRun ? "Missing, not booked" : "Missing, booked now", `${missing}, ${usd(missingNanos)}`],
    ["Cannot be booked", String(rejected)],
  ];
  return html`<p class="notice" role="status">The replay is complete.</p>
    <dl class="figures">${figures.map(([name, value]) => figure(name, value))}</dl>
    ${
      rids.length > 0 &&
      html`<h2>Missing calls${missing > BigInt(rids.length) && `, the first ${rids.length}`}</h2>
        <ul class="values">
          ${rids.map((rid) => html`<li>${dryRun ? rid : linkCalls(rid)}</li>`)}
        </ul>`
    }
    <p><a href="${base}">Back to the quarantine</a></p>`;
}
