import { randomUUID } from "node:crypto";
import { timestampDate, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { VoucherState, type Voucher, type VoucherBatch } from "#proto/billing/v1/billing_pb.ts";
import { dayMs } from "#shared/process/clock.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { isId } from "../../ids.ts";
import { usd } from "../../html/amounts.ts";
import { figure, form, input, instant, nextPage, table } from "../../html/controls.ts";
import { copyButton } from "../../html/copy-button.ts";
import { readDay, readNumber, readText, readUsd, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { lastDayOf } from "../../html/key-fields.ts";
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
import { auditAround, actorOf } from "../../audit-log.ts";
import { createVoucherCode, hashVoucherCode } from "../../sign-in/voucher-codes.ts";

const title = "Vouchers";
const base = "/operator/vouchers";
const pageSize = 50;
const maxVouchers = 1_000;
const minNanos = 10_000_000n;

/** Vouchers, for operators: codes that are money for whoever redeems them first. */
export function voucherRoutes(deps: Deps): Route[] {
  const action = "vouchers.manage";
  return [
    operatorRoute(get("/vouchers"), action, async (request) => page(title, await overview(deps, request))),
    operatorRoute(post("/vouchers"), action, (request) => create(deps, request)),
    operatorRoute(get("/vouchers/:batchId"), action, (request) => show(deps, request)),
    operatorRoute(get("/vouchers/:batchId/void"), action, (request) => askVoid(deps, request)),
    operatorRoute(post("/vouchers/:batchId/void"), action, (request) => voidRest(deps, request)),
  ];
}

async function overview({ billing }: Deps, request: SignedInRequest): Promise<Markup> {
  const before = request.query("before");
  const beforeBatchId = isId(before) ? before : "";
  const { batches } = await billing.listVoucherBatches({ beforeBatchId, limit: pageSize + 1 });
  const shown = batches.slice(0, pageSize);
  const last = batches.length > pageSize ? shown.at(-1) : undefined;
  const head = ["Batch", "Made", "Each", "Vouchers", "Redeemed", "Void", "Expires on", "Note"];
  return html`${table("Batches of vouchers, newest first", head, shown.map(batchRow))}
    ${last && nextPage(`${base}?before=${last.batchId}`)}
    <h2>Create vouchers</h2>
    ${form(request, { action: base, button: "Create vouchers" }, batchFields(request.form))}`;
}

function batchRow({ batchId, createdAt, amountNanos, vouchers, redeemed, voided, ...batch }: VoucherBatch): Markup {
  return html`<tr>
    <th scope="row"><a href="${base}/${batchId}">${batchId}</a></th>
    <td>${createdAt && instant(timestampDate(createdAt))}</td>
    <td>${usd(amountNanos)}</td>
    <td>${vouchers}</td>
    <td>${redeemed}</td>
    <td>${voided}</td>
    <td>${lastDay(batch)}</td>
    <td>${batch.note}</td>
  </tr>`;
}

const lastDay = ({ expiresAt }: Pick<VoucherBatch, "expiresAt">): string =>
  expiresAt ? lastDayOf(timestampDate(expiresAt)) : "–";

function batchFields(given: Form): Markup {
  return html`${input(given, {
    name: "amount",
    label: "Amount per voucher in USD",
    hint: "Such as 25.00.",
    inputmode: "decimal",
    maxLength: 21,
  })}
  ${input(given, {
    name: "count",
    label: "Number of vouchers",
    hint: `From 1 to ${maxVouchers.toLocaleString("en-US")}.`,
    value: "1",
    inputmode: "numeric",
    maxLength: 4,
  })}
  ${input(given, {
    name: "last-day",
    label: "Expires on",
    hint: "They cannot be redeemed after this day (UTC). Empty: they never expire.",
    type: "date",
    isOptional: true,
  })}
  ${input(given, { name: "note", label: "Note", hint: "For operators only.", maxLength: 500, isOptional: true })}`;
}

type BatchSettings = { amountNanos: bigint; count: number; expiresAt: Date | undefined; note: string };

function readBatch({ clock }: Deps, given: Form): BatchSettings | undefined {
  const amountNanos = readUsd(given, "amount", { min: minNanos });
  const count = readNumber(given, "count", maxVouchers);
  if (count === 0) given.refuse("count", "Make at least one.");
  const day = given.typed("last-day") === "" ? undefined : readDay(given, "last-day");
  const expiresAt = day && new Date(day.getTime() + dayMs);
  if (expiresAt && expiresAt.getTime() <= clock.nowMs()) given.refuse("last-day", "This day is over.");
  const note = readText(given, "note", { maxLength: 500, minLength: 0, what: "a note" });
  if (amountNanos === undefined || !count || note === undefined || given.errors.size > 0) return undefined;
  return { amountNanos, count, expiresAt, note };
}

async function create(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const settings = readBatch(deps, request.form);
  if (!settings) return again(title, await overview(deps, request));
  const { amountNanos, count, expiresAt, note } = settings;
  const batchId = randomUUID();
  const codes = Array.from({ length: count }, createVoucherCode);
  const codeHashes = codes.map(hashVoucherCode).filter((hash) => hash !== undefined);
  const after = { count, amountNanos: `${amountNanos}`, expiresAt: expiresAt?.toISOString() ?? null, note };
  try {
    await auditAround(deps, actorOf(request), { action: "vouchers.create", target: batchId, after }, async () => {
      const until = expiresAt && { expiresAt: timestampFromDate(expiresAt) };
      await deps.billing.createVouchers({ batchId, amountNanos, codeHashes, note, ...until });
      return { result: undefined };
    });
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "unavailable") throw error;
    deps.log.error({ err: error, batchId }, "unknown whether vouchers were created");
    return notKnown(batchId);
  }
  return page("Your new vouchers", codesOf(batchId, settings, codes));
}

function codesOf(batchId: string, { amountNanos, count }: BatchSettings, codes: readonly string[]): Markup {
  return html`<p class="problems">
      Copy the codes now and keep them safe. They are shown this once: nobody can show them again.
    </p>
    <p>${count} of ${usd(amountNanos)} each, batch ${batchId}.</p>
    <p>${copyButton("voucher-codes", "the codes")}</p>
    <pre id="voucher-codes">${codes.join("\n")}</pre>
    <p><a href="${base}/${batchId}">I have them: to the batch</a></p>`;
}

/** The codes are not shown then: they may be worth nothing, and whoever was given one would be the last to know. */
function notKnown(batchId: string): PageResponse {
  const body = html`<p>
      Billing did not answer in time. The batch ${batchId} may have been made, with codes that nobody knows. Look in a
      minute whether it is there, make it void if it is, and make the vouchers again.
    </p>
    <p><a href="${base}/${batchId}">Look for the batch</a></p>`;
  return page("It is not known whether the vouchers were made", body, { status: 503 });
}

// The operator's tool may have made batches with other ids than ours.
async function findBatch({ billing }: Deps, { parameters }: SignedInRequest) {
  const batchId = parameters["batchId"] ?? "";
  if (!isId(batchId)) throw new Problem("not-found");
  const { batch, vouchers } = await billing.listVouchers({ batchId });
  if (!batch) throw new Problem("not-found");
  return { batch, vouchers };
}

const openIn = ({ vouchers, redeemed, voided }: VoucherBatch): number => vouchers - redeemed - voided;

async function show(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { batch, vouchers } = await findBatch(deps, request);
  const { batchId, amountNanos, expiresAt, note } = batch;
  const isExpired = expiresAt !== undefined && timestampDate(expiresAt).getTime() <= deps.clock.nowMs();
  const rows = vouchers.map((voucher) => voucherRow(voucher, isExpired));
  return page(
    "Batch of vouchers",
    html`<dl>
        ${figure("Batch", batchId)} ${figure("Each", usd(amountNanos))} ${figure("Expires on", lastDay(batch))}
        ${figure("Note", note === "" ? "–" : note)}
      </dl>
      ${openIn(batch) > 0 && html`<p><a class="button" href="${base}/${batchId}/void">Void the rest</a></p>`}
      ${table("Vouchers of this batch", ["Number", "State", "Account", "Since"], rows)}`,
  );
}

function voucherRow({ number, state, accountId, changedAt }: Voucher, isExpired: boolean): Markup {
  return html`<tr>
    <th scope="row">${number}</th>
    <td>${stateOf(state, isExpired)}</td>
    <td>${accountId === "" ? "–" : html`<a href="/operator/accounts/${accountId}">${accountId}</a>`}</td>
    <td>${changedAt ? instant(timestampDate(changedAt)) : "–"}</td>
  </tr>`;
}

function stateOf(state: VoucherState, isExpired: boolean): string {
  if (state === VoucherState.REDEEMED) return "redeemed";
  if (state === VoucherState.VOID) return "void";
  return isExpired ? "expired" : "open";
}

async function askVoid(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { batch } = await findBatch(deps, request);
  const path = `${base}/${batch.batchId}`;
  return page(
    "Make vouchers void",
    html`<p>
        ${openIn(batch)} of ${batch.vouchers} vouchers of the batch ${batch.batchId} will be refused for good. What was
        redeemed stays in the accounts.
      </p>
      ${form(request, { action: `${path}/void`, button: "Void them", isDanger: true })}
      <p><a href="${path}">Keep them</a></p>`,
  );
}

async function voidRest(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { batch } = await findBatch(deps, request);
  const { batchId } = batch;
  const voidedBefore = batch.voided;
  const event = { action: "vouchers.void", target: batchId, before: { voided: voidedBefore } } as const;
  const voided = await auditAround(deps, actorOf(request), event, async () => {
    const after = (await deps.billing.voidVouchers({ batchId })).batch?.voided ?? 0;
    return { result: after, after: { voided: after } };
  });
  return redirect(`${base}/${batchId}`, `Vouchers made void: ${voided - voidedBefore}.`);
}
