import { PassThrough } from "node:stream";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { ReplayResponse } from "#proto/billing/v1/billing_pb.ts";
import { choice, figure, form, input, usd } from "../../html/controls.ts";
import { linkCalls } from "../../html/call-link.ts";
import { html, type Markup } from "../../html/html.ts";
import type { Form } from "../../html/form.ts";
import { installationNavigation } from "../../html/installation-navigation.ts";
import type { Parts } from "../../parts.ts";
import { again, page, type Answer, type SignedIn } from "../../html/route.ts";
import { noteAround, whoOf } from "../../trail.ts";

const base = "/operator/quarantine";
const title = "Read the stream again";
const mostMs = 10 * 60_000;
const tellEveryMs = 1_000;
const mostRids = 100;

type Replay = { from?: Date; until?: Date; accountId: string; dryRun: boolean };

export const replayPage = (asked: SignedIn): Answer => page(title, replayForm(asked));

function replayForm(asked: SignedIn): Markup {
  const hint = "UTC, such as 2027-01-31 or 2027-01-31 13:30.";
  const fields = html`${input(asked.form, { name: "from", label: "From", hint, most: 16, isOptional: true })}
  ${input(asked.form, { name: "until", label: "Until", hint, most: 16, isOptional: true })}
  ${input(asked.form, { name: "account", label: "Account id", hint: "Empty: all.", most: 64, isOptional: true })}
  ${choice(asked.form, {
    name: "run",
    label: "What to do",
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
    ${form(asked, { action: `${base}/replay`, button: "Begin" }, fields)}`;
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

function readReplay({ form: given }: SignedIn): Replay | undefined {
  const [from, until] = [readInstant(given, "from"), readInstant(given, "until")];
  const [accountId, run] = [given.typed("account"), given.typed("run")];
  if (from && until && until <= from) given.refuse("until", "Give a time after the first one.");
  if (!/^[\w-]{0,64}$/.test(accountId)) given.refuse("account", "Use at most 64 letters, digits, - or _.");
  if (run !== "dry" && run !== "book") given.refuse("run", "Choose what to do.");
  if (given.errors.size > 0) return undefined;
  return { accountId, dryRun: run === "dry", ...(from && { from }), ...(until && { until }) };
}

/** Reads the stream again and tells how far it is, for ten minutes at most and while somebody waits for it. */
export function replayNow(parts: Parts, asked: SignedIn): Answer {
  const wanted = readReplay(asked);
  if (!wanted) return again(title, replayForm(asked));
  const body = html`${installationNavigation(base)}
    <p>
      ${wanted.dryRun ? "Nothing is booked." : "What the ledger lacks is booked."} Leaving this page ends it; it ends by
      itself after ${mostMs / 60_000} minutes.
    </p>`;
  return { kind: "stream", title, body, pieces: run(parts, asked, wanted) };
}

/** The work goes on at its own pace: what it tells, at most a line a second, waits here until the browser takes it. */
function run(parts: Parts, asked: SignedIn, wanted: Replay): AsyncIterable<Markup> {
  const lines = new PassThrough({ objectMode: true });
  const work = noteAround(parts, whoOf(asked), deedOf(wanted), async () => {
    const { totals, rids } = await replay(
      parts,
      asked.gone,
      wanted,
      (line) => void (lines.destroyed || lines.write(line)),
    );
    return { result: ending(wanted, totals, rids), after: { ...valuesOf(wanted), ...totalsOf(totals) } };
  });
  work.then(
    (last) => lines.end(last),
    (error: unknown) => {
      parts.log.error({ err: error }, "a replay broke off");
      lines.end(
        html`<p class="problems">The replay broke off. What was told above is done; begin again for the rest.</p>`,
      );
    },
  );
  return lines;
}

type Told = { totals: ReplayResponse | undefined; rids: string[] };

async function replay(
  { billingStreams, clock }: Parts,
  gone: AbortSignal,
  { from, until, accountId, dryRun }: Replay,
  tell: (line: Markup) => void,
): Promise<Told> {
  const over = AbortSignal.any([gone, AbortSignal.timeout(mostMs)]);
  const span = { ...(from && { from: timestampFromDate(from) }), ...(until && { until: timestampFromDate(until) }) };
  const rids: string[] = [];
  let totals: ReplayResponse | undefined;
  let toldAtMs = 0;
  for await (const response of billingStreams.replay({ ...span, accountId, dryRun })) {
    totals = response;
    rids.push(...response.missingRids.slice(0, mostRids - rids.length));
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
    return html`<p class="problems">The replay ended before its end. Begin again, or ask for a shorter time.</p>`;
  }
  const { events, known, missing, missingNanos, rejected } = totals;
  const figures: [string, Markup | string][] = [
    ["Events read", String(events)],
    ["In the ledger", String(known)],
    [dryRun ? "Missing, not booked" : "Missing, booked now", `${missing}, ${usd(missingNanos)}`],
    ["Cannot be booked", String(rejected)],
  ];
  return html`<p class="notice" role="status">The replay is at its end.</p>
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
