import type { Page } from "playwright-core";

/** An amount as pages write it, "1.50 USD", in millionths of nano-USD, exactly. */
export function amountOf(text: string): bigint {
  const [, sign = "", units = "", decimals = ""] = /([+-]?)([\d,]+)\.(\d+)/.exec(text) ?? [];
  const amount = BigInt(units.replaceAll(",", "") + decimals.padEnd(15, "0"));
  return sign === "-" ? -amount : amount;
}

/** A figure of a page by its name, such as `Balance`. */
export const figureOf = (page: Page, name: string): Promise<string> =>
  page.locator(`dl > div:has(> dt:text-is("${name}")) > dd`).innerText();

/** The cells of a table's row by the words of its heading. */
export const cellsOf = (page: Page, heading: string): Promise<string[]> =>
  page
    .getByRole("row")
    .filter({ has: page.getByRole("rowheader", { name: heading }) })
    .first()
    .getByRole("cell")
    .allInnerTexts();
