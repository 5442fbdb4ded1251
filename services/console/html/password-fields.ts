import { input } from "./controls.ts";
import { maxPassword, type Form } from "./form.ts";
import { html, type Markup } from "./html.ts";

const type = "password";

/** A new password, twice. */
export function newPasswordFields(form: Form): Markup {
  const common = { type, autocomplete: "new-password", maxLength: maxPassword } as const;
  return html`${input(form, {
    name: "new-password",
    label: "New password",
    hint: "At least 12 characters; four or five unrelated words work well.",
    ...common,
  })}
  ${input(form, { name: "repeat-password", label: "Repeat the new password", ...common })}`;
}

/** The password that is set now, before something that a stranger at an open screen must not do. */
export function currentPasswordField(form: Form): Markup {
  const common = { type, autocomplete: "current-password", maxLength: maxPassword } as const;
  return input(form, { name: "password", label: "Your password", ...common });
}
