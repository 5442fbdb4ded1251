import type { Key } from "#proto/authquota/v1/authquota_pb.ts";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { dayMs } from "#shared/process/clock.ts";
import { area, input } from "./controls.ts";
import { readDay, readLines, readModels, readNumber, readText, type Form } from "./form.ts";
import { html, type Markup } from "./html.ts";
import { auditLimit, limitFields, limitSettingsOf, readLimit, type LimitSettings } from "./limit-fields.ts";
import type { AuditValues } from "../store/audit.ts";
import { networkOf } from "#shared/net/network.ts";

/** What can be set of a key. */
export type KeySettings = LimitSettings & {
  name: string;
  /** From when it is refused; undefined: never. */
  expiresAt: Date | undefined;
  /** Empty: all. */
  models: string[];
  /** 0: as many as the account may begin. */
  requestsPerMinute: number;
  /** Addresses and networks from which it works; empty: all. */
  addresses: string[];
  /** What it is sorted by. */
  tags: string[];
};

/** What people call a key: keys that were not made here need not have a name. */
export const nameOf = ({ keyId, name }: Pick<Key, "keyId" | "name">): string => name || keyId;

export function settingsOf(key: Key): KeySettings {
  const { name, expiresAt, models, requestsPerMinute, addresses, tags } = key;
  const bounds = { models, requestsPerMinute, addresses, tags };
  return { name, expiresAt: expiresAt && timestampDate(expiresAt), ...limitSettingsOf(key), ...bounds };
}

/** Settings for the audit log. */
export function auditSettings(settings: KeySettings): AuditValues {
  const { name, expiresAt, models, requestsPerMinute, addresses, tags } = settings;
  return {
    name,
    expiresAt: expiresAt?.toISOString() ?? null,
    ...auditLimit(settings),
    models,
    ...(requestsPerMinute > 0 && { requestsPerMinute }),
    ...(addresses.length > 0 && { addresses }),
    ...(tags.length > 0 && { tags }),
  };
}

/** The last whole day (UTC) on which the key works. */
export const lastDayOf = (expiresAt: Date): string => new Date(expiresAt.getTime() - 1).toISOString().slice(0, 10);

const noSettings: KeySettings = {
  name: "",
  expiresAt: undefined,
  limitNanos: undefined,
  limitPeriod: "",
  models: [],
  requestsPerMinute: 0,
  addresses: [],
  tags: [],
};

export function keyFields(form: Form, settings: KeySettings = noSettings): Markup {
  const { name, expiresAt, models, requestsPerMinute, addresses, tags } = settings;
  return html`${input(form, { name: "name", label: "Name", value: name, maxLength: 200 })}
  ${input(form, {
    name: "tags",
    label: "Tags",
    hint: "What you sort keys by, such as team=search prod. At most 10.",
    value: tags.join(" "),
    maxLength: 700,
    isOptional: true,
  })}
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
  })}
  ${input(form, {
    name: "requests-per-minute",
    label: "Calls per minute",
    hint: "Empty: as many as the account may begin.",
    value: requestsPerMinute === 0 ? "" : String(requestsPerMinute),
    inputmode: "numeric",
    maxLength: 7,
    isOptional: true,
  })}
  ${area(form, {
    name: "addresses",
    label: "Addresses",
    hint: "IPv4 and IPv6 addresses and networks that may use the key, such as 192.0.2.0/24, one per line. Empty: all.",
    value: addresses.join("\n"),
    rows: 4,
  })}`;
}

/** Reads the fields; undefined when the form says what is wrong. A day that was not touched keeps its very instant. */
export function readKeySettings(form: Form, before: KeySettings = noSettings): KeySettings | undefined {
  const name = readText(form, "name", { maxLength: 200, what: "a name" });
  const models = readModels(form, "models");
  const limit = readLimit(form);
  const requestsPerMinute = readRate(form);
  const addresses = readAddresses(form);
  const tags = readTags(form);
  const expiresAt = form.typed("last-day") === "" ? undefined : readExpiry(form, before.expiresAt);
  if (name === undefined || models === undefined || limit === undefined || form.errors.size > 0) return undefined;
  return { name, expiresAt, ...limit, models, requestsPerMinute, addresses, tags };
}

const maxPerMinute = 1_000_000;
const maxAddresses = 64;

const readRate = (form: Form): number =>
  form.typed("requests-per-minute") === "" ? 0 : (readNumber(form, "requests-per-minute", maxPerMinute) ?? 0);

/** Addresses and networks, one per line; none: the key works from all. */
function readAddresses(form: Form): string[] {
  const lines = readLines(form, "addresses");
  if (lines.length > maxAddresses) form.refuse("addresses", `Name at most ${maxAddresses} addresses and networks.`);
  const wrong = lines.find((line) => networkOf(line) === undefined);
  if (wrong !== undefined) {
    const shown = wrong.slice(0, 64);
    form.refuse("addresses", `Write one address or network per line, such as 192.0.2.7 or 2001:db8::/48: ${shown}`);
  }
  return [...new Set(lines.flatMap((line) => networkOf(line) ?? []))];
}

const maxTags = 10;
const tagPattern = /^[\p{L}\p{N}][\p{L}\p{N}._:/@+=-]{0,63}$/u;

/** Tags between blanks or commas. */
function readTags(form: Form): string[] {
  const tags = form
    .typed("tags")
    .split(/[\s,]+/)
    .filter((tag) => tag !== "");
  const wrong = tags.find((tag) => !tagPattern.test(tag));
  if (wrong !== undefined) {
    const signs = "letters, digits and . _ : / @ + = -";
    form.refuse("tags", `A tag has 1 to 64 ${signs}, a letter or digit first: ${wrong.slice(0, 64)}`);
  }
  const unique = [...new Set(tags)];
  if (unique.length > maxTags) form.refuse("tags", `Give at most ${maxTags} tags.`);
  return unique;
}

function readExpiry(form: Form, before: Date | undefined): Date | undefined {
  if (before && form.typed("last-day") === lastDayOf(before)) return before;
  const day = readDay(form, "last-day");
  return day && new Date(day.getTime() + dayMs);
}
