import { maxAccountNanos, parseUsd } from "#shared/money/money.ts";
import { readAddress } from "../email-address.ts";

/** The fields of a form that came in, and what is wrong with them, by field. */
export type Form = {
  /** What was typed, without the spaces around it; empty when there is no such field or more than one. */
  typed: (name: string) => string;
  /** As it came, for passwords. */
  exact: (name: string) => string;
  /** Whether the field came, be it empty: a page may have several forms. */
  has: (name: string) => boolean;
  errors: ReadonlyMap<string, string>;
  /** Notes what is wrong, as a sentence for the person. */
  refuse: (name: string, sentence: string) => undefined;
};

export function createForm(body: unknown): Form {
  const fields = new Map(Object.entries(typeof body === "object" && body !== null ? body : {}));
  const errors = new Map<string, string>();
  const exact = (name: string): string => {
    const value: unknown = fields.get(name);
    // No browser sends NUL, and PostgreSQL cannot store it.
    return typeof value === "string" && !value.includes("\0") ? value : "";
  };
  const refuse = (name: string, sentence: string): undefined => {
    if (!errors.has(name)) errors.set(name, sentence);
  };
  return { typed: (name) => exact(name).trim(), exact, has: (name) => fields.has(name), errors, refuse };
}

// Readers: each tells the value, or notes a sentence in the form and tells undefined.

const controls = /\p{Cc}/u;

type TextRule = { maxLength: number; minLength?: number; what: string };

/** One line of text. */
export function readText(form: Form, name: string, { maxLength, minLength = 1, what }: TextRule): string | undefined {
  const text = form.typed(name);
  const length = [...text].length;
  if (length < minLength) return form.refuse(name, `Give ${what}.`);
  if (length > maxLength) return form.refuse(name, `Use at most ${maxLength.toLocaleString("en-US")} characters.`);
  return controls.test(text) ? form.refuse(name, "Leave out line breaks and other control characters.") : text;
}

/** An e-mail address in lower case, as it is compared. */
export function readEmail(form: Form, name: string): string | undefined {
  return readAddress(form.typed(name)) ?? form.refuse(name, "Give an e-mail address such as name@example.org.");
}

const minPassword = 12;
export const maxPassword = 256;

/** A new password, given twice. Its length is what counts; no rules about kinds of characters. */
export function readNewPassword(form: Form, email: string): string | undefined {
  const password = form.exact("new-password");
  const length = [...password].length;
  if (length < minPassword) return form.refuse("new-password", `Use at least ${minPassword} characters.`);
  if (length > maxPassword) return form.refuse("new-password", `Use at most ${maxPassword} characters.`);
  if (password.toLowerCase() === email) return form.refuse("new-password", "Use something else than your address.");
  if (form.exact("repeat-password") !== password) {
    return form.refuse("repeat-password", "Type the same password again.");
  }
  return password;
}

type UsdRange = { min: bigint; max?: bigint };

/** An amount in USD as nano-USD, exact to the last of nine decimals. */
export function readUsd(form: Form, name: string, { min, max = maxAccountNanos }: UsdRange): bigint | undefined {
  try {
    const nanos = parseUsd(form.typed(name));
    if (nanos >= min && nanos <= max) return nanos;
    return form.refuse(name, nanos < min ? "This amount is too small." : "This amount is too large.");
  } catch {
    return form.refuse(name, "Give an amount in USD such as 12.50, with at most nine decimals.");
  }
}

/** A whole number. */
export function readNumber(form: Form, name: string, max: number): number | undefined {
  const text = form.typed(name);
  const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (number <= max) return number;
  return form.refuse(name, `Give a whole number from 0 to ${max.toLocaleString("en-US")}.`);
}

const dayPattern = /^(20\d\d|21\d\d)-\d\d-\d\d$/;

/** Midnight (UTC) at which a day begins. */
export function readDay(form: Form, name: string): Date | undefined {
  const text = form.typed(name);
  const day = new Date(`${text}T00:00:00Z`);
  const isDay = dayPattern.test(text) && !Number.isNaN(day.getTime()) && day.toISOString().startsWith(text);
  return isDay ? day : form.refuse(name, "Give a day as year-month-day, such as 2027-01-31.");
}

const maxModels = 200;
const maxModelLength = 256;

/** What stands on the lines of a field, without empty and repeated ones. */
export function readLines(form: Form, name: string): string[] {
  const lines = form.exact(name).split("\n");
  return [...new Set(lines.map((line) => line.trim()).filter((line) => line !== ""))];
}

/** Names of models, one per line; none: all are allowed. */
export function readModels(form: Form, name: string): string[] | undefined {
  const models = readLines(form, name);
  if (models.length > maxModels) return form.refuse(name, `Name at most ${maxModels} models.`);
  if (models.some((model) => model.length > maxModelLength || controls.test(model))) {
    return form.refuse(name, `Write one name per line, each at most ${maxModelLength} characters.`);
  }
  return models;
}
