import { html as escaping } from "ghtml";

const text = Symbol("markup");

/** Markup that a template of this service has made. Nothing that comes as a string or as JSON can look like it. */
export type Markup = { readonly [text]: string };

type Value = string | number | bigint | Markup | undefined | false | readonly Value[];

/**
 * A template in which every value is escaped unless another template made it. There is no way to put a string in raw:
 * ghtml's own `!` before a value means nothing here.
 */
export function html(literals: TemplateStringsArray, ...values: Value[]): Markup {
  const pieces = values.map((value, index) => write(value) + (literals[index + 1] ?? ""));
  return { [text]: (literals[0] ?? "") + pieces.join("") };
}

function write(value: Value): string {
  if (value === undefined || value === false) return "";
  if (isList(value)) return value.map(write).join("");
  if (typeof value === "object") return value[text];
  return escaping`${String(value)}`;
}

const isList = (value: Value): value is readonly Value[] => Array.isArray(value);

/** The text of a page, ready to be sent. */
export function render(markup: Markup): string {
  return markup[text];
}
