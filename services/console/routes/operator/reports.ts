import { dayMs } from "#shared/process/clock.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { GetProgressResponse, Report } from "#proto/billing/v1/billing_pb.ts";
import { form, input } from "../../html/controls.ts";
import { dayOf } from "../../html/days.ts";
import { createForm, readDay, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { installationNavigation } from "../../html/installation-navigation.ts";
import type { Deps } from "../../deps.ts";
import { Problem } from "../../html/problem.ts";
import {
  again,
  get,
  operatorRoute,
  page,
  post,
  redirect,
  type PageResponse,
  type Route,
  type SignedInRequest,
} from "../../html/route.ts";
import { reportBody } from "./report-body.ts";
import { auditAround, actorOf } from "../../audit-log.ts";

const base = "/operator/reports";
const title = "Reconciliation";

/** What reconciliation has found, by day, and a look at it now. */
export function reportRoutes(deps: Deps): Route[] {
  return [
    operatorRoute(get("/reports"), "installation.view", (request) => show(deps, request)),
    operatorRoute(get("/reports/:day/:file"), "installation.view", (request) => download(deps, request)),
    operatorRoute(post("/reports/now"), "installation.manage", (request) => reconcileNow(deps, request)),
    operatorRoute(post("/reports/day"), "installation.manage", (request) => reconcileDay(deps, request)),
  ];
}

const yesterday = ({ clock }: Deps): string => dayOf(new Date(clock.nowMs() - dayMs));

async function show(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const given = createForm({ day: request.query("day") || yesterday(deps) });
  const day = readDay(given, "day");
  const [report, progress] = await Promise.all([day && findReport(deps, dayOf(day)), readProgress(deps)]);
  const none = html`<p>There is no report for this day. Daily reports are created shortly after the day ends.</p>`;
  return page(
    title,
    html`${installationNavigation(base)}${progressWords(progress)}
      <form method="get" action="${base}" class="filters">
        ${input(given, { name: "day", label: "Day (UTC)", type: "date" })}
        <p><button class="outline">Show</button></p>
      </form>
      ${day && (report ? reportBody(report) : none)}
      ${makeForms(request, request.form, day ? dayOf(day) : yesterday(deps))}`,
  );
}

async function findReport({ billing }: Deps, day: string): Promise<Report | undefined> {
  try {
    return (await billing.getReport({ day })).report;
  } catch (error) {
    if (error instanceof ServiceError && error.code === "not_found") return undefined;
    throw error;
  }
}

/** The page is for when something is wrong: NATS, without which this is not known, may be it. */
async function readProgress({ billing, log }: Deps): Promise<GetProgressResponse | undefined> {
  try {
    return await billing.getProgress({});
  } catch (error) {
    log.warn({ err: error }, "failed to read booking progress from billing");
    return undefined;
  }
}

function progressWords(progress: GetProgressResponse | undefined): Markup {
  if (!progress) {
    return html`<p class="problems">A part of the system does not answer, so booking progress is unknown.</p>`;
  }
  const { lastSequence, bookedSequence } = progress;
  const behind = lastSequence - bookedSequence;
  const words = behind <= 0n ? "all of it is booked" : `${behind} messages are not booked yet`;
  return html`<p>The usage stream is at message ${lastSequence}; ${words}.</p>`;
}

function makeForms(request: SignedInRequest, given: Form, day: string): Markup {
  return html`<h2>Reconcile now</h2>
    <p>Checks recent changes and stores nothing. It may take a minute.</p>
    ${form(request, { action: `${base}/now`, button: "Reconcile now" })}
    <p>Checks a whole day; the report is signed and stored with earlier ones of that day.</p>
    ${form(
      request,
      { action: `${base}/day`, button: "Create a daily report" },
      input(given, { name: "report-day", label: "Day (UTC) of the report", type: "date", value: day }),
    )}`;
}

async function reconcileNow({ patientBilling }: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { report } = await patientBilling.reconcile({ day: "" });
  return page(
    "What changed lately",
    html`${installationNavigation(base)}${report && reportBody(report)}
      ${form(request, { action: `${base}/now`, button: "Reconcile again" })}
      <p><a href="${base}">Daily reports</a></p>`,
  );
}

async function reconcileDay(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { form: given } = request;
  const start = readDay(given, "report-day");
  if (start && start.getTime() > deps.clock.nowMs()) given.refuse("report-day", "This day has not begun.");
  if (!start || given.errors.size > 0) {
    return again(title, html`${installationNavigation(base)}${makeForms(request, given, yesterday(deps))}`);
  }
  const day = dayOf(start);
  await auditAround(deps, actorOf(request), { action: "report.make", target: day }, async () => {
    const { report } = await deps.patientBilling.reconcile({ day });
    const isSigned = (report?.signature.length ?? 0) > 0;
    return { result: undefined, after: { unexplainedNanos: String(report?.unexplainedNanos ?? 0n), isSigned } };
  });
  return redirect(`${base}?day=${day}`, `The report of ${day} is made and kept.`);
}

/** What was signed, byte for byte, its signature (as base64: it is no text) and the key to check it with. */
async function download(deps: Deps, { parameters }: SignedInRequest): Promise<PageResponse> {
  const { day = "", file = "" } = parameters;
  const start = readDay(createForm({ day }), "day");
  const report = start && (await findReport(deps, day));
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
