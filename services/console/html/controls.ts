import { html, type Markup } from "./html.ts";
import type { Form } from "./form.ts";
import type { PageRequest } from "./route.ts";

type Control = {
  name: string;
  label: string;
  /** Said below the label and read with the field. */
  hint?: string;
  /** What stands in the field when the form is first shown. */
  value?: string;
};

type Input = Control & {
  type?: "text" | "email" | "password" | "date" | "number";
  autocomplete?: string;
  inputmode?: "decimal" | "numeric";
  maxLength?: number;
  isOptional?: boolean;
  /** Id of a datalist with what may be meant. */
  list?: string;
};

const isSent = (form: Form, name: string): boolean =>
  form.exact(name) !== "" || (form.errors.size > 0 && form.has(name));

function describe(form: Form, { name, hint }: Control): { texts: Markup; attributes: Markup } {
  const error = form.errors.get(name);
  const ids = [...(hint === undefined ? [] : [`${name}-hint`]), ...(error === undefined ? [] : [`${name}-error`])];
  const described = ids.length > 0 && html` aria-describedby="${ids.join(" ")}"`;
  const invalid = error !== undefined && html` aria-invalid="true"`;
  return {
    texts: html`${hint !== undefined && html`<span class="hint" id="${name}-hint">${hint}</span>`}
    ${error !== undefined && html`<span class="error" id="${name}-error">${error}</span>`}`,
    attributes: html`${described}${invalid}`,
  };
}

/** A labelled field of one line. Passwords and codes are never sent back. */
export function input(form: Form, control: Input): Markup {
  const {
    name,
    label,
    value = "",
    type = "text",
    autocomplete = "off",
    inputmode,
    maxLength,
    isOptional,
    list,
  } = control;
  const { texts, attributes } = describe(form, control);
  const shown = isSent(form, name) ? form.exact(name) : value;
  const isSecret = type === "password" || autocomplete === "one-time-code";
  const limits = html`${inputmode && html` inputmode="${inputmode}"`}${maxLength && html` maxlength="${maxLength}"`}${
    list && html` list="${list}"`
  }`;
  const request = html`${!isOptional && html` required`}${!isSecret && html` value="${shown}"`}`;
  return html`<div class="field">
    <label for="${name}">${label}${isOptional && " (optional)"}</label> ${texts}<input
      id="${name}"
      name="${name}"
      type="${type}"
      autocomplete="${autocomplete}"
      ${limits}${request}${attributes}
    />
  </div>`;
}

/** The field for an address to sign in with; `username` when it is that of who types it. */
export function emailField(form: Form, autocomplete: "username" | "off" = "off"): Markup {
  return input(form, { name: "email", label: "E-mail address", type: "email", autocomplete, maxLength: 254 });
}

/** A labelled field of several lines. */
export function area(form: Form, control: Control & { rows: number; isRequired?: boolean }): Markup {
  const { name, label, value = "", rows, isRequired = false } = control;
  const { texts, attributes } = describe(form, control);
  const shown = isSent(form, name) ? form.exact(name) : value;
  return html`<div class="field">
    <label for="${name}">${label}${!isRequired && " (optional)"}</label> ${texts}<textarea
      id="${name}"
      name="${name}"
      rows="${rows}"
      ${isRequired && html`required`}
      ${attributes}
    >
${shown}</textarea>
  </div>`;
}

/** A labelled choice of one. */
export function choice(form: Form, control: Control & { choices: readonly (readonly [string, string])[] }): Markup {
  const { name, label, value = "", choices } = control;
  const { texts, attributes } = describe(form, control);
  const chosen = isSent(form, name) ? form.exact(name) : value;
  const options = choices.map(
    ([choiceValue, words]) =>
      html`<option value="${choiceValue}" ${choiceValue === chosen && html` selected`}>${words}</option>`,
  );
  return html`<div class="field">
    <label for="${name}">${label}</label> ${texts}<select id="${name}" name="${name}" ${attributes}>
      ${options}
    </select>
  </div>`;
}

type FormOptions = {
  action: string;
  button: string;
  isDanger?: boolean;
  /** Where this button sends the form instead, when another button in it goes to `action`. */
  buttonAction?: string;
};

/** A form that changes something. What is wrong in it, the layout says first, and each field again. */
export function form({ csrfField }: PageRequest, sent: FormOptions, fields?: Markup): Markup {
  const { action, button, isDanger, buttonAction } = sent;
  const own = html`${isDanger && html` data-variant="danger"`}${buttonAction && html` formaction="${buttonAction}"`}`;
  return html`<form method="post" action="${action}" novalidate>${csrfField}${fields}
<p><button${own}>${button}</button></p>
</form>`;
}

/** A form that is one button; `about` tells people who hear it which of many it is. */
export function button(
  { csrfField }: PageRequest,
  { action, button: label, isDanger }: FormOptions,
  about = "",
): Markup {
  const own = html` class="outline"${isDanger && html` data-variant="danger"`}`;
  const more = about !== "" && html`<span class="hidden"> ${about}</span>`;
  return html`<form class="inline" method="post" action="${action}">${csrfField}
<button${own}>${label}${more}</button>
</form>`;
}

/** A table that a keyboard can scroll sideways on a narrow screen. */
export function table(caption: string, head: readonly string[], rows: readonly Markup[]): Markup {
  if (rows.length === 0) return html`<p class="card">${caption}: none.</p>`;
  return tableOf(
    { caption, head },
    html`<tbody>
      ${rows}
    </tbody>`,
  );
}

type TableHead = { caption: string; head: readonly string[]; attributes?: Markup };

/** The same around bodies and feet that are more than rows. */
export function tableOf({ caption, head, attributes }: TableHead, bodies: Markup): Markup {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}">
    <table${attributes}>
      <caption>
        ${caption}
      </caption>
      <thead>
        <tr>
          ${head.map((name) => html`<th scope="col">${name}</th>`)}
        </tr>
      </thead>
      ${bodies}
    </table>
  </div>`;
}

/** A table of figures, which stand to the right. */
export const figureTable = (caption: string, head: readonly string[], bodies: Markup): Markup =>
  tableOf({ caption, head, attributes: html` class="figures"` }, bodies);

/** A row of a list of names and values, which is a `dl`. */
export const figure = (name: string, value: string | Markup): Markup =>
  html`<div>
    <dt>${name}</dt>
    <dd>${value}</dd>
  </div>`;

/** The figure that is read first. */
export const leadFigure = (name: string, value: Markup): Markup =>
  html`<div class="lead">
    <dt>${name}</dt>
    <dd>${value}</dd>
  </div>`;

/** An instant for people, to the minute; script shows it in the zone of who reads it. */
export function instant(at: Date): Markup {
  return timeOf(at);
}

/** An instant as how long ago it was, which script keeps up; without script it is as any other. */
export const ago = (at: Date): Markup => timeOf(at, html` data-ago`);

function timeOf(at: Date, attributes?: Markup): Markup {
  const iso = at.toISOString();
  const utc = iso.slice(0, 19).replace("T", " ");
  return html`<time datetime="${iso}" title="${utc} UTC" ${attributes}>${utc.slice(0, -3)}</time>`;
}

export type Tone = "success" | "warning" | "danger" | "secondary";

/** A state in one word; the colour only helps. */
export const badge = (words: string, tone: Tone): Markup =>
  html`<span class="badge" data-variant="${tone}">${words}</span>`;

/** What stands where a list would be, with the thing to do next. */
export const emptyState = (title: string, text: string, action?: Markup | false): Markup =>
  html`<section class="card empty">
    <h2>${title}</h2>
    <p>${text}</p>
    ${action && html`<p>${action}</p>`}
  </section>`;

/** Which page of a list is asked for, from 0 on. */
export const pageNumberOf = ({ query }: Pick<PageRequest, "query">): number =>
  /^\d{1,3}$/.test(query("page")) ? Number(query("page")) : 0;

/** The way to the next page of a list. */
export const nextPage = (href: string): Markup => html`<p><a rel="next" href="${href}">Next page</a></p>`;
