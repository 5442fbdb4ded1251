import type { Account } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { usd } from "../../html/amounts.ts";
import { readText, readUsd } from "../../html/form.ts";
import { accountIn, detail } from "./operator-accounts.ts";
import type { Deps } from "../../deps.ts";
import {
  again,
  operatorRoute,
  post,
  redirect,
  type PageResponse,
  type Route,
  type SignedInRequest,
} from "../../html/route.ts";
import { auditAround, actorOf, type AuditEvent } from "../../audit-log.ts";

/** Money that operators book by hand. */
export function operatorBookingRoutes(deps: Deps): Route[] {
  return [
    operatorRoute(post("/accounts/:id/credit"), "accounts.money", (request) => credit(deps, request)),
    operatorRoute(post("/accounts/:id/correct"), "accounts.money", (request) => correct(deps, request)),
    operatorRoute(post("/accounts/:id/refund"), "accounts.money", (request) => refund(deps, request)),
  ];
}

type Booked = { line?: { lineId: string; amountNanos: bigint } | undefined; balanceNanos: bigint };

type Booking = {
  action: AuditEvent["action"];
  target: string;
  /** 0, for refunds only: all that is left. */
  amountNanos: bigint;
  words: string;
  rid?: string;
};

const noRid = "Give the request id of a call, as its page shows it.";
const outOfRange = "The balance would be further from 0 than an account may be. Look at the amount.";

async function credit(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const account = await accountIn(deps, request);
  const { form } = request;
  const amountNanos = readUsd(form, "credit", { min: 1n });
  const paymentId = readText(form, "payment", { maxLength: 200, what: "the id of the payment" });
  const note = readText(form, "note", { maxLength: 500, minLength: 0, what: "a note" });
  if (paymentId?.startsWith("voucher:")) form.refuse("payment", "Only vouchers have such ids. Give another one.");
  if (amountNanos === undefined || paymentId === undefined || note === undefined || form.errors.size > 0) {
    return again(account.name, await detail(deps, request, account));
  }
  const { accountId } = account;
  const booking = { action: "account.credit", target: paymentId, amountNanos, words: note } as const;
  const taken = "This payment id was booked with another amount, note or account.";
  const refusals = { taken: ["payment", taken], refused: ["credit", outOfRange] } as const;
  return refusing(deps, request, { account, ...refusals }, () =>
    book(deps, request, { account, booking }, () => deps.billing.credit({ accountId, amountNanos, paymentId, note })),
  );
}

async function correct(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const account = await accountIn(deps, request);
  const { form } = request;
  const amountNanos = readUsd(form, "correction", { min: -maxAccountNanos });
  if (amountNanos === 0n) form.refuse("correction", "Give an amount other than 0.");
  const correctionId = readText(form, "correction-id", { maxLength: 200, what: "the id of the correction" });
  const reason = readText(form, "reason", { maxLength: 500, what: "a reason" });
  const rid = form.typed("corrected-rid").toLowerCase();
  if (rid !== "" && ridTimeMs(rid) === undefined) form.refuse("corrected-rid", noRid);
  if (!amountNanos || correctionId === undefined || reason === undefined || form.errors.size > 0) {
    return again(account.name, await detail(deps, request, account));
  }
  const { accountId } = account;
  const about = rid === "" ? {} : { rid };
  const booking = { action: "account.correct", target: correctionId, amountNanos, words: reason, ...about } as const;
  const taken = "This form was sent before with other content. Open the account again for another correction.";
  const refusals = { taken: ["reason", taken], refused: ["correction", outOfRange] } as const;
  return refusing(deps, request, { account, ...refusals }, () =>
    book(deps, request, { account, booking }, () =>
      deps.billing.correct({ accountId, amountNanos, correctionId, reason, rid }),
    ),
  );
}

async function refund(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const account = await accountIn(deps, request);
  const { form } = request;
  const rid = form.typed("rid").toLowerCase();
  if (ridTimeMs(rid) === undefined) form.refuse("rid", noRid);
  const amountNanos = form.typed("refund") === "" ? 0n : readUsd(form, "refund", { min: 1n });
  const refundId = readText(form, "refund-id", { maxLength: 200, what: "the id of the refund" });
  const reason = readText(form, "refund-reason", { maxLength: 500, what: "a reason" });
  if (amountNanos === undefined || refundId === undefined || reason === undefined || form.errors.size > 0) {
    return again(account.name, await detail(deps, request, account));
  }
  const { accountId } = account;
  const booking = { action: "account.refund", target: refundId, amountNanos, words: reason, rid } as const;
  const taken = "This form was sent before with other content. Open the account again for another refund.";
  const refused = "So much is not left to refund: look at what this account was charged for this call.";
  const refusals = { taken: ["rid", taken], refused: ["rid", refused] } as const;
  return refusing(deps, request, { account, ...refusals }, () =>
    book(deps, request, { account, booking }, () =>
      deps.billing.refund({ accountId, rid, amountNanos, refundId, reason }),
    ),
  );
}

/** Books between two lines of the audit log, with the balances before and after. */
async function book(
  deps: Deps,
  request: SignedInRequest,
  { account, booking }: { account: Account; booking: Booking },
  call: () => Promise<Booked>,
): Promise<PageResponse> {
  const { accountId } = account;
  const { action, target, amountNanos, words, rid } = booking;
  const earlier = await deps.billing.getBalance({ accountId });
  const before = { balanceNanos: earlier.balanceNanos.toString() };
  const wanted = { amountNanos: amountNanos.toString(), words, ...(rid !== undefined && { rid }) };
  const { balanceNanos, bookedNanos } = await auditAround(
    deps,
    actorOf(request),
    { action, accountId, target, before, after: wanted },
    async () => {
      const booked = await call();
      const bookedNanos = amountNanos || (booked.line?.amountNanos ?? 0n);
      const result = { balanceNanos: booked.balanceNanos, bookedNanos };
      const amounts = { amountNanos: bookedNanos.toString(), balanceNanos: booked.balanceNanos.toString() };
      return { result, after: { ...wanted, ...amounts, lineId: booked.line?.lineId ?? "" } };
    },
  );
  return redirect(
    `/operator/accounts/${accountId}`,
    `Booked ${usd(bookedNanos)}. The balance is ${usd(balanceNanos)}.`,
  );
}

type RefusalTexts = {
  account: Account;
  /** The field, and what is said there, when the id has other content. */
  taken: readonly [string, string];
  /** When the ledger does not allow it. */
  refused: readonly [string, string];
};

/** What billing does not book as it was typed, such as an id that has other content, is a mistake in the form. */
async function refusing(
  deps: Deps,
  request: SignedInRequest,
  { account, taken, refused }: RefusalTexts,
  work: () => Promise<PageResponse>,
): Promise<PageResponse> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const refusal = { already_exists: taken, failed_precondition: refused }[String(error.code)];
    if (refusal === undefined) throw error;
    request.form.refuse(...refusal);
    return again(account.name, await detail(deps, request, account));
  }
}
