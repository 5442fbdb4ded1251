import { randomUUID } from "node:crypto";
import { form, input } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";
import type { SignedInRequest } from "../../html/route.ts";

const amount = (request: SignedInRequest, name: string, hint: string, isOptional = false): Markup =>
  input(request.form, { name, label: "Amount in USD", hint, inputmode: "decimal", maxLength: 21, isOptional });

/** The forms with which money is booked by hand. */
export function moneyForms(request: SignedInRequest, path: string): Markup {
  // Made with the form, so that one that is sent twice is booked once.
  const correctionId = request.form.typed("correction-id") || `console:${randomUUID()}`;
  const refundId = request.form.typed("refund-id") || `console:${randomUUID()}`;
  return html`<h2>Credit</h2>
    ${form(
      request,
      { action: `${path}/credit`, button: "Book credit" },
      html`${amount(request, "credit", "What was paid, such as 100.00.")}
      ${input(request.form, {
        name: "payment",
        label: "Payment id",
        hint: "The id at the payment provider. An id is booked only once.",
        maxLength: 200,
      })}
      ${input(request.form, { name: "note", label: "Note", maxLength: 500, isOptional: true })}`,
    )}
    <h2>Correction</h2>
    ${form(
      request,
      { action: `${path}/correct`, button: "Book correction", isDanger: true },
      html`<input type="hidden" name="correction-id" value="${correctionId}" />
        ${amount(request, "correction", "Negative takes money, such as -12.50.")}
        ${input(request.form, { name: "reason", label: "Reason", maxLength: 500 })}
        ${input(request.form, {
          name: "corrected-rid",
          label: "Request id",
          hint: "Of the corrected call, if any. This also settles its record in quarantine.",
          maxLength: 36,
          isOptional: true,
        })}`,
    )}
    <h2>Refund</h2>
    ${form(
      request,
      { action: `${path}/refund`, button: "Book refund" },
      html`<input type="hidden" name="refund-id" value="${refundId}" />
        ${input(request.form, { name: "rid", label: "Request id", hint: "Of the refunded call.", maxLength: 36 })}
        ${amount(request, "refund", "Empty: all that was charged for the call and is not refunded yet.", true)}
        ${input(request.form, { name: "refund-reason", label: "Reason", maxLength: 500 })}`,
    )}`;
}
