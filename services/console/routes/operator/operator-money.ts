import { randomUUID } from "node:crypto";
import { form, input } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";
import type { SignedIn } from "../../html/route.ts";

const amount = (asked: SignedIn, name: string, hint: string, isOptional = false): Markup =>
  input(asked.form, { name, label: "Amount in USD", hint, inputmode: "decimal", most: 21, isOptional });

/** The forms with which money is booked by hand. */
export function moneyForms(asked: SignedIn, path: string): Markup {
  // Made with the form, so that one that is sent twice is booked once.
  const correctionId = asked.form.typed("correction-id") || `console:${randomUUID()}`;
  const refundId = asked.form.typed("refund-id") || `console:${randomUUID()}`;
  return html`<h2>Credit</h2>
    ${form(
      asked,
      { action: `${path}/credit`, button: "Book credit" },
      html`${amount(asked, "credit", "What was paid, such as 100.00.")}
      ${input(asked.form, {
        name: "payment",
        label: "Payment id",
        hint: "As at whoever took the money. The same id is booked once.",
        most: 200,
      })}
      ${input(asked.form, { name: "note", label: "Note", most: 500, isOptional: true })}`,
    )}
    <h2>Correction</h2>
    ${form(
      asked,
      { action: `${path}/correct`, button: "Book correction", isDanger: true },
      html`<input type="hidden" name="correction-id" value="${correctionId}" />
        ${amount(asked, "correction", "Negative takes money, such as -12.50.")}
        ${input(asked.form, { name: "reason", label: "Reason", most: 500 })}
        ${input(asked.form, {
          name: "corrected-rid",
          label: "Request id",
          hint: "Of the call that is corrected, if it is one: a record of it in quarantine is settled with this.",
          most: 36,
          isOptional: true,
        })}`,
    )}
    <h2>Refund</h2>
    ${form(
      asked,
      { action: `${path}/refund`, button: "Book refund" },
      html`<input type="hidden" name="refund-id" value="${refundId}" />
        ${input(asked.form, { name: "rid", label: "Request id", hint: "Of the call that is refunded.", most: 36 })}
        ${amount(asked, "refund", "Empty: all that was charged for the call and is not refunded yet.", true)}
        ${input(asked.form, { name: "refund-reason", label: "Reason", most: 500 })}`,
    )}`;
}
