import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { QuarantinedRecord } from "#proto/billing/v1/billing_pb.ts";
import { callLink } from "../../html/call-link.ts";
import { usd } from "../../html/amounts.ts";
import { figure, instant, nextPage, table } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";
import { installationNavigation } from "../../html/installation-navigation.ts";
import type { Deps } from "../../deps.ts";
import { Problem } from "../../html/problem.ts";
import { recordFields } from "./quarantine-record.ts";
import { replayPage, replayNow } from "./quarantine-replay.ts";
import {
  get,
  operatorRoute,
  page,
  post,
  type PageResponse,
  type Route,
  type SignedInRequest,
} from "../../html/route.ts";
import { auditAround, actorOf } from "../../audit-log.ts";

const pageSize = 50;
const base = "/operator/quarantine";
const maxHexBytes = 4_096;
const hexPerLine = 32;

/** Messages of the usage stream that could not be booked, and what may book them after all. */
export function quarantineRoutes(deps: Deps): Route[] {
  return [
    operatorRoute(get("/quarantine"), "installation.view", (request) => list(deps, request)),
    operatorRoute(get("/quarantine/replay"), "installation.manage", async (request) => replayPage(request)),
    operatorRoute(post("/quarantine/replay"), "installation.manage", async (request) => replayNow(deps, request)),
    operatorRoute(post("/quarantine/retry"), "installation.manage", (request) => retry(deps, request)),
    operatorRoute(get("/quarantine/:quarantineId"), "installation.view", (request) => show(deps, request)),
  ];
}

const readId = (text: string): bigint => (/^[1-9]\d{0,17}$/.test(text) ? BigInt(text) : 0n);

async function list({ billing }: Deps, request: SignedInRequest): Promise<PageResponse> {
  const onlyOpen = request.query("view") !== "all";
  const beforeQuarantineId = readId(request.query("before"));
  const { records } = await billing.listQuarantine({ limit: pageSize + 1, beforeQuarantineId, onlyOpen });
  const shown = records.slice(0, pageSize);
  const last = records.length > pageSize ? shown.at(-1) : undefined;
  const view = onlyOpen ? "open" : "all";
  const open = shown.filter(({ isOpen }) => isOpen).map(({ quarantineId }) => quarantineId);
  const head = ["Number", "Received", "Why", "Call", "What it says", "State", "Actions"];
  const caption = onlyOpen ? "Open records, newest first" : "All records, newest first";
  return page(
    "Quarantine",
    html`${installationNavigation(base)}
      <p>
        Messages of the usage stream that could not be booked. A record is open until it is booked, or until a
        correction names its call, or, where it has none, says <code>quarantine</code> and its number in the reason.
      </p>
      <p>
        <a href="${onlyOpen ? `${base}?view=all` : base}"
          >${onlyOpen ? "Show settled ones, too" : "Show open ones only"}</a
        >
        · <a href="${base}/replay">Read the stream again…</a>
      </p>
      ${table(
        caption,
        head,
        shown.map((record) => row(request, record)),
      )}
      ${open.length > 1 && retryButton(request, open, `Retry all ${open.length} open ones of this page`)}
      ${last && nextPage(`${base}?view=${view}&before=${last.quarantineId}`)}`,
  );
}

function row(request: SignedInRequest, record: QuarantinedRecord): Markup {
  const { quarantineId, reason, receivedAt, isOpen } = record;
  return html`<tr>
    <th scope="row"><a href="${base}/${quarantineId}">${quarantineId}</a></th>
    <td>${receivedAt ? instant(timestampDate(receivedAt)) : "–"}</td>
    <td>${reason}</td>
    <td>${callLink(record.usage?.accountId ?? "", record.rid)}</td>
    <td>${short(record)}</td>
    <td>${isOpen ? "open" : "settled"}</td>
    <td>${isOpen && retryButton(request, [quarantineId], "Retry")}</td>
  </tr>`;
}

function short({ usage }: QuarantinedRecord): string {
  if (!usage) return "cannot be read";
  return `${usage.accountId || "no account"}: ${usage.modelRequested || "no model"}, ${usd(usage.costNanos)}`;
}

const retryButton = (request: SignedInRequest, ids: bigint[], label: string): Markup =>
  html`<form class="inline" method="post" action="${base}/retry">
    ${request.csrfField}<input type="hidden" name="ids" value="${ids.join(" ")}" /><button>
      ${label}${ids.length === 1 && html`<span class="hidden"> ${ids[0] ?? ""}</span>`}
    </button>
  </form>`;

async function show({ billing }: Deps, request: SignedInRequest): Promise<PageResponse> {
  const wanted = readId(request.parameters["quarantineId"] ?? "");
  if (wanted === 0n) throw new Problem("not-found");
  const { records } = await billing.listQuarantine({ limit: 1, beforeQuarantineId: wanted + 1n });
  const [record] = records;
  if (record?.quarantineId !== wanted) throw new Problem("not-found");
  const { reason, receivedAt, isOpen, usage, payload, rid } = record;
  const rest = payload.length - maxHexBytes;
  return page(
    `Quarantined record ${wanted}`,
    html`${installationNavigation(base)}
      <dl class="figures">
        ${figure("Why", reason)} ${figure("Received", receivedAt ? instant(timestampDate(receivedAt)) : "–")}
        ${figure("Call", callLink(usage?.accountId ?? "", rid))} ${figure("State", isOpen ? "open" : "settled")}
      </dl>
      ${isOpen && retryButton(request, [wanted], "Retry")}
      <h2>Content</h2>
      ${usage ? recordFields(usage) : html`<p>The content cannot be read.</p>`}
      <h2>Payload</h2>
      <p>${payload.length} bytes${rest > 0 && `, of which the first ${maxHexBytes} are shown`}, hexadecimal.</p>
      <div class="scroll" tabindex="0" role="region" aria-label="Payload">
        <pre>${hexLines(payload)}</pre>
      </div>`,
  );
}

function hexLines(payload: Uint8Array): string {
  const hex = Buffer.from(payload.subarray(0, maxHexBytes)).toString("hex");
  return (hex.match(new RegExp(`.{1,${hexPerLine * 2}}`, "g")) ?? []).join("\n");
}

async function retry(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const ids = request.form.typed("ids").split(" ").map(readId);
  if (ids.length > pageSize || ids.includes(0n)) throw new Problem("bad-request");
  const target = ids.join(" ");
  const records = await auditAround(deps, actorOf(request), { action: "quarantine.retry", target }, async () => {
    const { records: result } = await deps.patientBilling.retryQuarantine({ quarantineIds: ids });
    const numbers = (isBooked: boolean): string[] =>
      result.filter((one) => one.isBooked === isBooked).map(({ quarantineId }) => String(quarantineId));
    return { result, after: { booked: numbers(true), kept: numbers(false) } };
  });
  const rows = records.map(
    ({ quarantineId, isBooked, reason }) =>
      html`<tr>
        <th scope="row"><a href="${base}/${quarantineId}">${quarantineId}</a></th>
        <td>${isBooked ? "booked" : "stays in quarantine"}</td>
        <td>${reason || "–"}</td>
      </tr>`,
  );
  return page(
    "Retried",
    html`${installationNavigation(base)}${table("What became of the records", ["Number", "Outcome", "Why not"], rows)}
      <p><a href="${base}">Back to the quarantine</a></p>`,
  );
}
