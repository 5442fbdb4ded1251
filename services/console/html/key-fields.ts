import type { Key } from "#proto/authquota/v1/authquota_pb.ts";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { dayMs } from "#shared/process/clock.ts";
import { area, input } from "./controls.ts";
import { readDay, readModels, readText, type Form } from "./form.ts";
import { html, type Markup } from "./html.ts";
import { auditLimit, limitFields, limitSettingsOf, readLimit, type LimitSettings } from "./limit-fields.ts";
import type { AuditValues } from "../store/audit.ts";

/** What can be set of a key. */
export type KeySettings = LimitSettings & {
  name: string;
  /** From when it is refused; undefined: never. */
  expiresAt: Date | undefined;
  /** Empty: all. */
  models: string[];
};

/** What people call a key: keys that were not made here need not have a name. */
export const nameOf = ({ keyId, name }: Pick<Key, "keyId" | "name">): string => name || keyId;

export function settingsOf(key: Key): KeySettings {
  const { name, expiresAt, models } = key;
  return { name, expiresAt: expiresAt && timestampDate(expiresAt), ...limitSettingsOf(key), models };
}

/** Settings for the audit log. */
export function auditSettings(settings: KeySettings): AuditValues {
  const { name, expiresAt, models } = settings;
  return { name, expiresAt: expiresAt?.toISOString() ?? null, ...auditLimit(settings), models };
}

/** The last whole day (UTC) on which the key works. */
export const lastDayOf = (expiresAt: Date): string => new Date(expiresAt.getTime() - 1).toISOString().slice(0, 10);

const noSettings: KeySettings = {
  name: "",
  expiresAt: undefined,
  limitNanos: undefined,
  limitPeriod: "",
  models: [],
};

export function keyFields(form: Form, settings: KeySettings = noSettings): Markup {
  const { name, expiresAt, models } = settings;
  return html`${input(form, { name: "name", label: "Name", value: name, maxLength: 200 })}
  ${input(form, {
    name: "last-day",
    label: "Expires on",
    hint: "The key stops working after this day (UTC). Empty: it never expires.",
    value: expiresAt ? lastDayOf(expiresAt) : "",
    type: "date",
    isOptional: true,
  })}
  ${limitFields(form, settings, "What the key may spend, such as 12.50. Empty: limited only by the account's balance.")}
  ${area(form, {
    name: "models",
    label: "Models",
    hint: "Models that the key may use, one per line. Empty: all.",
    value: models.join("\n"),
    rows: 4,
  })}`;
}

/** Reads the fields; undefined when the form says what is wrong. A day that was not touched keeps its very instant. */
export function readKeySettings(form: Form, before: KeySettings = noSettings): KeySettings | undefined {
  const name = readText(form, "name", { maxLength: 200, what: "a name" });
  const models = readModels(form, "models");
  const limit = readLimit(form);
  const expiresAt = form.typed("last-day") === "" ? undefined : readExpiry(form, before.expiresAt);
  if (name === undefined || models === undefined || limit === undefined || form.errors.size > 0) return undefined;
  return { name, expiresAt, ...limit, models };
}

function readExpiry(form: Form, before: Date | undefined): Date | undefined {
  if (before && form.typed("last-day") === lastDayOf(before)) return before;
  const day = readDay(form, "last-day");
  return day && new Date(day.getTime() + dayMs);
}
