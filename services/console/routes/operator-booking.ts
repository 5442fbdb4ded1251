import type { Account } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/errors.ts";
import { maxAccountNanos } from "#shared/money.ts";
import { usd } from "../controls.ts";
import { readText, readUsd } from "../form.ts";
import { accountIn, detail } from "./operator-accounts.ts";
import type { Parts } from "../parts.ts";
import { again, operatorRoute, post, redirect, type Answer, type Route, type SignedIn } from "../route.ts";
import { noteAround, whoOf, type Deed } from "../trail.ts";

/** Money that operators book by hand. */
export function operatorBookingRoutes(parts: Parts): Route[] {
  return [
    operatorRoute(post("/accounts/:id/credit"), "accounts.money", (asked) => credit(parts, asked)),
    operatorRoute(post("/accounts/:id/correct"), "accounts.money", (asked) => correct(parts, asked)),
  ];
}

type Booked = { line?: { lineId: string } | undefined; balanceNanos: bigint };
type Booking = { action: Deed["action"]; target: string; amountNanos: bigint; words: string };

async function credit(parts: Parts, asked: SignedIn): Promise<Answer> {
  const account = await accountIn(parts, asked);
  const { form } = asked;
  const amountNanos = readUsd(form, "credit", { least: 1n });
  const paymentId = readText(form, "payment", { most: 200, what: "the id of the payment" });
  const note = readText(form, "note", { most: 500, least: 0, what: "a note" });
  if (amountNanos === undefined || paymentId === undefined || note === undefined) {
    return again(account.name, await detail(parts, asked, account));
  }
  const { accountId } = account;
  const booking = { action: "account.credit", target: paymentId, amountNanos, words: note } as const;
  const taken = "This payment id was booked with another amount, note or account.";
  return refusing(parts, asked, { account, field: "payment", taken }, () =>
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
  if (!amountNanos || correctionId === undefined || reason === undefined) {
    return again(account.name, await detail(parts, asked, account));
  }
  const { accountId } = account;
  const booking = { action: "account.correct", target: correctionId, amountNanos, words: reason } as const;
  const taken = "This form was sent before with other content. Open the account again for another correction.";
  return refusing(parts, asked, { account, field: "reason", taken }, () =>
    book(parts, asked, { account, booking }, () =>
      parts.billing.correct({ accountId, amountNanos, correctionId, reason }),
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
  const { action, target, amountNanos, words } = booking;
  const earlier = await parts.billing.getBalance({ accountId });
  const before = { balanceNanos: earlier.balanceNanos.toString() };
  const wanted = { amountNanos: amountNanos.toString(), words };
  const balanceNanos = await noteAround(
    parts,
    whoOf(asked),
    { action, accountId, target, before, after: wanted },
    async () => {
      const booked = await call();
      const after = { ...wanted, balanceNanos: booked.balanceNanos.toString(), lineId: booked.line?.lineId ?? "" };
      return { result: booked.balanceNanos, after };
    },
  );
  return redirect(
    `/operator/accounts/${accountId}`,
    `Booked ${usd(amountNanos)}. The balance is ${usd(balanceNanos)}.`,
  );
}

type Refusing = { account: Account; field: string; taken: string };

/** An id that billing knows with other content is a mistake in the form. */
async function refusing(
  parts: Parts,
  asked: SignedIn,
  { account, field, taken }: Refusing,
  work: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "already_exists") throw error;
    asked.form.refuse(field, taken);
    return again(account.name, await detail(parts, asked, account));
  }
}
