import { ridTimeMs } from "#shared/money/rid.ts";
import { isId } from "../ids.ts";
import { html, type Markup } from "./html.ts";

/** The way to a call's page; plain text when the ids are none, as in a record that could not be booked. */
export function callLink(accountId: string, rid: string): Markup {
  if (!isId(accountId) || ridTimeMs(rid) === undefined) return html`${rid || "–"}`;
  return html`<a href="/accounts/${accountId}/calls/${rid}">${rid}</a>`;
}

const ridPattern = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/;

/** A text in which the first request id leads operators to the call, whosever it is. */
export function linkCalls(text: string): Markup {
  const [rid] = ridPattern.exec(text) ?? [];
  if (rid === undefined) return html`${text}`;
  const start = text.indexOf(rid);
  const link = html`<a href="/operator/calls/${rid}">${rid}</a>`;
  return html`${text.slice(0, start)}${link}${text.slice(start + rid.length)}`;
}
