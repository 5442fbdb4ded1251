// Spreadsheets run a cell that begins like this as a formula, and notes and names come from outside.
const formulaStart = /^[=+\-@\t\r＝＋－＠]/;

/** A text that no spreadsheet takes for a formula: an apostrophe before what begins like one. Not for figures. */
export function withoutFormula(text = ""): string {
  return formulaStart.test(text) ? `'${text}` : text;
}
