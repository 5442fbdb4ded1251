import type { Account } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { usd } from "../../html/controls.ts";
import { readText, readUsd } from "../../html/form.ts";
import { accountIn, detail } from "./operator-accounts.ts";
import type { Parts } from "../../parts.ts";
import { again, operatorRoute, post, redirect, type Answer, type Route, type SignedIn } from "../../html/route.ts";
import { noteAround, whoOf, type Deed } from "../../trail.ts";

/** Money that operators book by hand. */
export function operatorBookingRoutes(parts: Parts): Route[] {
  return [
    operatorRoute(post("/accounts/:id/credit"), "accounts.money", (asked) => credit(parts, asked)),
    operatorRoute(post("/accounts/:id/correct"), "accounts.money", (asked) => correct(parts, asked)),
    operatorRoute(post("/accounts/:id/refund"), "accounts.money", (asked) => refund(parts, asked)),
  ];
}

type Booked = { line?: { lineId: string; amountNanos: bigint } | undefined; balanceNanos: bigint };

type Booking = {
  action: Deed["action"];
  target: string;
  /** 0, for refunds only: all that is left. */
  amountNanos: bigint;
  words: string;
  rid?: string;
};

const noRid = "Give the request id of a call, as its page shows it.";
const outOfRange = "The balance would be further from 0 than an account may be. Look at the amount.";

async function credit(parts: Parts, asked: SignedIn): Promise<Answer> {
  const account = await accountIn(parts, asked);
  const { form } = asked;
  const amountNanos = readUsd(form, "credit", { least: 1n });
  const paymentId = readText(form, "payment", { most: 200, what: "the id of the payment" });
  const note = readText(form, "note", { most: 500, least: 0, what: "a note" });
  if (paymentId?.startsWith("voucher:")) form.refuse("payment", "Only vouchers have such ids. Give another one.");
  if (amountNanos === undefined || paymentId === undefined || note === undefined || form.errors.size > 0) {
    return again(account.name, await detail(parts, asked, account));
  }
  const { accountId } = account;
  const booking = { action: "account.credit", target: paymentId, amountNanos, words: note } as const;
  const taken = "This payment id was booked with another amount, note or account.";
  const refusals = { taken: ["payment", taken], refused: ["credit", outOfRange] } as const;
  return refusing(parts, asked, { account, ...refusals }, () =>
    book(parts, asked, { account, booking }, () => parts.billing.credit({ accountId, amountNanos, paymentId, note })),
  );
}

async function correct(parts: Parts, asked: SignedIn): Promise<Answer> {
  const account = await accountIn(parts, asked);
  const { form } = asked;
  const amountNanos = readUsd(form, "correction", { least: -maxAccountNanos });
  if (amountNanos === 0n) form.refuse("correction", "Give an amount other than 0.");
  const correctionId = readText(form, "correction-id", { most: 200, what: "the id of the correction" });
  const reason = readText(form, "reason", { most: 500, what: "a reason" });
  const rid = form.typed("corrected-rid").toLowerCase();
  if (rid !== "" && ridTimeMs(rid) === undefined) form.refuse("corrected-rid", noRid);
  if (!amountNanos || correctionId === undefined || reason === undefined || form.errors.size > 0) {
    return again(account.name, await detail(parts, asked, account));
  }
  const { accountId } = account;
  const about = rid === "" ? {} : { rid };
  const booking = { action: "account.correct", target: correctionId, amountNanos, words: reason, ...about } as const;
  const taken = "This form was sent before with other content. Open the account again for another correction.";
  const refusals = { taken: ["reason", taken], refused: ["correction", outOfRange] } as const;
  return refusing(parts, asked, { account, ...refusals }, () =>
    book(parts, asked, { account, booking }, () =>
      parts.billing.correct({ accountId, amountNanos, correctionId, reason, rid }),
    ),
  );
}

async function refund(parts: Parts, asked: SignedIn): Promise<Answer> {
  const account = await accountIn(parts, asked);
  const { form } = asked;
  const rid = form.typed("rid").toLowerCase();
  if (ridTimeMs(rid) === undefined) form.refuse("rid", noRid);
  const amountNanos = form.typed("refund") === "" ? 0n : readUsd(form, "refund", { least: 1n });
  const refundId = readText(form, "refund-id", { most: 200, what: "the id of the refund" });
  const reason = readText(form, "refund-reason", { most: 500, what: "a reason" });
  if (amountNanos === undefined || refundId === undefined || reason === undefined || form.errors.size > 0) {
    return again(account.name, await detail(parts, asked, account));
  }
  const { accountId } = account;
  const booking = { action: "account.refund", target: refundId, amountNanos, words: reason, rid } as const;
  const taken = "This form was sent before with other content. Open the account again for another refund.";
  const refused = "So much is not left to refund: look at what this account was charged for this call.";
  const refusals = { taken: ["rid", taken], refused: ["rid", refused] } as const;
  return refusing(parts, asked, { account, ...refusals }, () =>
    book(parts, asked, { account, booking }, () =>
      parts.billing.refund({ accountId, rid, amountNanos, refundId, reason }),
    ),
  );
}

/** Books between two lines of the audit log, with the balances before and after. */
async function book(
  parts: Parts,
  asked: SignedIn,
  { account, booking }: { account: Account; booking: Booking },
  call: () => Promise<Booked>,
): Promise<Answer> {
  const { accountId } = account;
  const { action, target, amountNanos, words, rid } = booking;
  const earlier = await parts.billing.getBalance({ accountId });
  const before = { balanceNanos: earlier.balanceNanos.toString() };
  const wanted = { amountNanos: amountNanos.toString(), words, ...(rid !== undefined && { rid }) };
  const { balanceNanos, bookedNanos } = await noteAround(
    parts,
    whoOf(asked),
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

type Refusing = {
  account: Account;
  /** The field, and what is said there, when the id has other content. */
  taken: readonly [string, string];
  /** When the ledger does not allow it. */
  refused: readonly [string, string];
};

/** What billing does not book as it was typed, such as an id that has other content, is a mistake in the form. */
async function refusing(
  parts: Parts,
  asked: SignedIn,
  { account, taken, refused }: Refusing,
  work: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const refusal = { already_exists: taken, failed_precondition: refused }[String(error.code)];
    if (refusal === undefined) throw error;
    asked.form.refuse(...refusal);
    return again(account.name, await detail(parts, asked, account));
  }
}
