import { randomUUID } from "node:crypto";
import { timestampDate, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { VoucherState, type Voucher, type VoucherBatch } from "#proto/billing/v1/billing_pb.ts";
import { dayMs } from "#shared/process/clock.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { isId } from "../../ids.ts";
import { figure, form, input, instant, nextPage, table, usd } from "../../html/controls.ts";
import { copyButton } from "../../html/copy-button.ts";
import { readDay, readNumber, readText, readUsd, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { lastDayOf } from "../../html/key-fields.ts";
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
import { noteAround, whoOf } from "../../trail.ts";
import { createVoucherCode, hashVoucherCode } from "../../sign-in/voucher-codes.ts";

const title = "Vouchers";
const base = "/operator/vouchers";
const pageSize = 50;
const mostVouchers = 1_000;
const leastNanos = 10_000_000n;

/** Vouchers, for operators: codes that are money for whoever redeems them first. */
export function voucherRoutes(parts: Parts): Route[] {
  const action = "vouchers.manage";
  return [
    operatorRoute(get("/vouchers"), action, async (asked) => page(title, await overview(parts, asked))),
    operatorRoute(post("/vouchers"), action, (asked) => create(parts, asked)),
    operatorRoute(get("/vouchers/:batchId"), action, (asked) => show(parts, asked)),
    operatorRoute(get("/vouchers/:batchId/void"), action, (asked) => askVoid(parts, asked)),
    operatorRoute(post("/vouchers/:batchId/void"), action, (asked) => voidRest(parts, asked)),
  ];
}

async function overview({ billing }: Parts, asked: SignedIn): Promise<Markup> {
  const before = asked.query("before");
  const beforeBatchId = isId(before) ? before : "";
  const { batches } = await billing.listVoucherBatches({ beforeBatchId, limit: pageSize + 1 });
  const shown = batches.slice(0, pageSize);
  const last = batches.length > pageSize ? shown.at(-1) : undefined;
  const head = ["Batch", "Made", "Each", "Vouchers", "Redeemed", "Void", "Last day", "Note"];
  return html`${table("Batches of vouchers, newest first", head, shown.map(batchRow))}
    ${last && nextPage(`${base}?before=${last.batchId}`)}
    <h2>Make vouchers</h2>
    ${form(asked, { action: base, button: "Make vouchers" }, batchFields(asked.form))}`;
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
    label: "Amount of each in USD",
    hint: "Such as 25.00.",
    inputmode: "decimal",
    most: 21,
  })}
  ${input(given, {
    name: "count",
    label: "How many",
    hint: `From 1 to ${mostVouchers.toLocaleString("en-US")}.`,
    value: "1",
    inputmode: "numeric",
    most: 4,
  })}
  ${input(given, {
    name: "last-day",
    label: "Last day",
    hint: "They cannot be redeemed once this day (UTC) is over. Empty: they do not expire.",
    type: "date",
    isOptional: true,
  })}
  ${input(given, { name: "note", label: "Note", hint: "For operators only.", most: 500, isOptional: true })}`;
}

type BatchSettings = { amountNanos: bigint; count: number; expiresAt: Date | undefined; note: string };

function readBatch({ clock }: Parts, given: Form): BatchSettings | undefined {
  const amountNanos = readUsd(given, "amount", { least: leastNanos });
  const count = readNumber(given, "count", mostVouchers);
  if (count === 0) given.refuse("count", "Make at least one.");
  const day = given.typed("last-day") === "" ? undefined : readDay(given, "last-day");
  const expiresAt = day && new Date(day.getTime() + dayMs);
  if (expiresAt && expiresAt.getTime() <= clock.nowMs()) given.refuse("last-day", "This day is over.");
  const note = readText(given, "note", { most: 500, least: 0, what: "a note" });
  if (amountNanos === undefined || !count || note === undefined || given.errors.size > 0) return undefined;
  return { amountNanos, count, expiresAt, note };
}

async function create(parts: Parts, asked: SignedIn): Promise<Answer> {
  const settings = readBatch(parts, asked.form);
  if (!settings) return again(title, await overview(parts, asked));
  const { amountNanos, count, expiresAt, note } = settings;
  const batchId = randomUUID();
  const codes = Array.from({ length: count }, createVoucherCode);
  const codeHashes = codes.map(hashVoucherCode).filter((hash) => hash !== undefined);
  const after = { count, amountNanos: `${amountNanos}`, expiresAt: expiresAt?.toISOString() ?? null, note };
  try {
    await noteAround(parts, whoOf(asked), { action: "vouchers.create", target: batchId, after }, async () => {
      const until = expiresAt && { expiresAt: timestampFromDate(expiresAt) };
      await parts.billing.createVouchers({ batchId, amountNanos, codeHashes, note, ...until });
      return { result: undefined };
    });
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "unavailable") throw error;
    parts.log.error({ err: error, batchId }, "it is not known whether vouchers were made");
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
function notKnown(batchId: string): Answer {
  const body = html`<p>
      Billing did not answer in time. The batch ${batchId} may have been made, with codes that nobody knows. Look in a
      minute whether it is there, make it void if it is, and make the vouchers again.
    </p>
    <p><a href="${base}/${batchId}">Look for the batch</a></p>`;
  return page("It is not known whether the vouchers were made", body, { status: 503 });
}

// The operator's tool may have made batches with other ids than ours.
async function findBatch({ billing }: Parts, { parameters }: SignedIn) {
  const batchId = parameters["batchId"] ?? "";
  if (!isId(batchId)) throw new Problem("not-found");
  const { batch, vouchers } = await billing.listVouchers({ batchId });
  if (!batch) throw new Problem("not-found");
  return { batch, vouchers };
}

const openIn = ({ vouchers, redeemed, voided }: VoucherBatch): number => vouchers - redeemed - voided;

async function show(parts: Parts, asked: SignedIn): Promise<Answer> {
  const { batch, vouchers } = await findBatch(parts, asked);
  const { batchId, amountNanos, expiresAt, note } = batch;
  const isExpired = expiresAt !== undefined && timestampDate(expiresAt).getTime() <= parts.clock.nowMs();
  const rows = vouchers.map((voucher) => voucherRow(voucher, isExpired));
  return page(
    "Batch of vouchers",
    html`<dl>
        ${figure("Batch", batchId)} ${figure("Each", usd(amountNanos))} ${figure("Last day", lastDay(batch))}
        ${figure("Note", note === "" ? "–" : note)}
      </dl>
      ${openIn(batch) > 0 && html`<p><a class="button" href="${base}/${batchId}/void">Make the rest void</a></p>`}
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

async function askVoid(parts: Parts, asked: SignedIn): Promise<Answer> {
  const { batch } = await findBatch(parts, asked);
  const path = `${base}/${batch.batchId}`;
  return page(
    "Make vouchers void",
    html`<p>
        ${openIn(batch)} of ${batch.vouchers} vouchers of the batch ${batch.batchId} will be refused for good. What was
        redeemed stays in the accounts.
      </p>
      ${form(asked, { action: `${path}/void`, button: "Make void", isDanger: true })}
      <p><a href="${path}">Keep them</a></p>`,
  );
}

async function voidRest(parts: Parts, asked: SignedIn): Promise<Answer> {
  const { batch } = await findBatch(parts, asked);
  const { batchId } = batch;
  const voidedBefore = batch.voided;
  const deed = { action: "vouchers.void", target: batchId, before: { voided: voidedBefore } } as const;
  const voided = await noteAround(parts, whoOf(asked), deed, async () => {
    const after = (await parts.billing.voidVouchers({ batchId })).batch?.voided ?? 0;
    return { result: after, after: { voided: after } };
  });
  return redirect(`${base}/${batchId}`, `Vouchers made void: ${voided - voidedBefore}.`);
}
