import { dayMs } from "#shared/process/clock.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { GetProgressResponse, Report } from "#proto/billing/v1/billing_pb.ts";
import { form, input } from "../../html/controls.ts";
import { dayOf } from "../../html/days.ts";
import { createForm, readDay, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { installationNavigation } from "../../html/installation-navigation.ts";
import type { Parts } from "../../parts.ts";
import { Problem } from "../../html/problem.ts";
import {
  again,
  get,
  operatorRoute,
  page,
  post,
  redirect,
  type Answer,
  type Route,
  type SignedIn,
} from "../../html/route.ts";
import { reportBody } from "./report-body.ts";
import { noteAround, whoOf } from "../../trail.ts";

const base = "/operator/reports";
const title = "Reconciliation";

/** What reconciliation has found, by day, and a look at it now. */
export function reportRoutes(parts: Parts): Route[] {
  return [
    operatorRoute(get("/reports"), "installation.view", (asked) => show(parts, asked)),
    operatorRoute(get("/reports/:day/:file"), "installation.view", (asked) => download(parts, asked)),
    operatorRoute(post("/reports/now"), "installation.manage", (asked) => reconcileNow(parts, asked)),
    operatorRoute(post("/reports/day"), "installation.manage", (asked) => reconcileDay(parts, asked)),
  ];
}

const yesterday = ({ clock }: Parts): string => dayOf(new Date(clock.nowMs() - dayMs));

async function show(parts: Parts, asked: SignedIn): Promise<Answer> {
  const given = createForm({ day: asked.query("day") || yesterday(parts) });
  const day = readDay(given, "day");
  const [report, progress] = await Promise.all([day && findReport(parts, dayOf(day)), readProgress(parts)]);
  const none = html`<p>No report of this day is kept. The one of a day is made shortly after its end.</p>`;
  return page(
    title,
    html`${installationNavigation(base)}${progressWords(progress)}
      <form method="get" action="${base}" class="filters">
        ${input(given, { name: "day", label: "Day (UTC)", type: "date" })}
        <p><button>Show</button></p>
      </form>
      ${day && (report ? reportBody(report) : none)}
      ${makeForms(asked, asked.form, day ? dayOf(day) : yesterday(parts))}`,
  );
}

async function findReport({ billing }: Parts, day: string): Promise<Report | undefined> {
  try {
    return (await billing.getReport({ day })).report;
  } catch (error) {
    if (error instanceof ServiceError && error.code === "not_found") return undefined;
    throw error;
  }
}

/** The page is for when something is wrong: NATS, without which this is not known, may be it. */
async function readProgress({ billing, log }: Parts): Promise<GetProgressResponse | undefined> {
  try {
    return await billing.getProgress({});
  } catch (error) {
    log.warn({ err: error }, "billing did not tell how far the usage stream is booked");
    return undefined;
  }
}

function progressWords(progress: GetProgressResponse | undefined): Markup {
  if (!progress) {
    return html`<p class="problems">
      A part of the system does not answer, so it is not known how far the usage stream is booked.
    </p>`;
  }
  const { lastSequence, bookedSequence } = progress;
  const behind = lastSequence - bookedSequence;
  const words = behind <= 0n ? "all of it is booked" : `${behind} messages are not booked yet`;
  return html`<p>The usage stream is at message ${lastSequence}; ${words}.</p>`;
}

function makeForms(asked: SignedIn, given: Form, day: string): Markup {
  return html`<h2>Reconcile now</h2>
    <p>What changed lately is looked at, and nothing is kept. It may take a minute.</p>
    ${form(asked, { action: `${base}/now`, button: "Reconcile now" })}
    <p>All of a day is looked at; the report is signed and kept beside earlier ones of the day.</p>
    ${form(
      asked,
      { action: `${base}/day`, button: "Make the report of a day" },
      input(given, { name: "report-day", label: "Day (UTC) of the report", type: "date", value: day }),
    )}`;
}

async function reconcileNow({ patientBilling }: Parts, asked: SignedIn): Promise<Answer> {
  const { report } = await patientBilling.reconcile({ day: "" });
  return page(
    "What changed lately",
    html`${installationNavigation(base)}${report && reportBody(report)}
      ${form(asked, { action: `${base}/now`, button: "Reconcile again" })}
      <p><a href="${base}">Reports of days</a></p>`,
  );
}

async function reconcileDay(parts: Parts, asked: SignedIn): Promise<Answer> {
  const { form: given } = asked;
  const start = readDay(given, "report-day");
  if (start && start.getTime() > parts.clock.nowMs()) given.refuse("report-day", "This day has not begun.");
  if (!start || given.errors.size > 0) {
    return again(title, html`${installationNavigation(base)}${makeForms(asked, given, yesterday(parts))}`);
  }
  const day = dayOf(start);
  await noteAround(parts, whoOf(asked), { action: "report.make", target: day }, async () => {
    const { report } = await parts.patientBilling.reconcile({ day });
    const isSigned = (report?.signature.length ?? 0) > 0;
    return { result: undefined, after: { unexplainedNanos: String(report?.unexplainedNanos ?? 0n), isSigned } };
  });
  return redirect(`${base}?day=${day}`, `The report of ${day} is made and kept.`);
}

/** What was signed, byte for byte, its signature (as base64: it is no text) and the key to check it with. */
async function download(parts: Parts, { parameters }: SignedIn): Promise<Answer> {
  const { day = "", file = "" } = parameters;
  const start = readDay(createForm({ day }), "day");
  const report = start && (await findReport(parts, day));
  if (!report || report.content.length === 0) throw new Problem("not-found");
  const texts = new Map([
    ["report.json", { type: "application/json", text: Buffer.from(report.content).toString() }],
    ["report.sig.base64", { type: "text/plain", text: `${Buffer.from(report.signature).toString("base64")}\n` }],
    ["public-key.pem", { type: "text/plain", text: report.publicKey }],
  ]);
  const found = texts.get(file);
  if (!found || (file !== "report.json" && report.signature.length === 0)) throw new Problem("not-found");
  return { kind: "file", name: `${day}-${file}`, type: found.type, pieces: one(found.text) };
}

async function* one(text: string): AsyncGenerator<string> {
  yield text;
}
