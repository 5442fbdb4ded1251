import type { Page } from "playwright-core";

/** An amount as pages write it, "1.50 USD", in millionths of nano-USD, exactly. */
export function amountOf(text: string): bigint {
  const [, sign = "", units = "", decimals = ""] = /([+-]?)([\d,]+)\.(\d+)/.exec(text) ?? [];
  const amount = BigInt(units.replaceAll(",", "") + decimals.padEnd(15, "0"));
  return sign === "-" ? -amount : amount;
}

/** An element, as far as the function below reads one; it runs in the browser, where nothing else of here is. */
type Shown = {
  textContent: string;
  title: string;
  cloneNode: (isDeep: boolean) => Shown;
  querySelectorAll: (selector: string) => Iterable<Shown>;
};

/** The text of an element. Amounts are shown rounded and carry the exact one, which stands in their place here. */
function exactText(element: unknown): string {
  const copy = (element as Shown).cloneNode(true);
  for (const amount of copy.querySelectorAll("data.money")) amount.textContent = amount.title;
  return copy.textContent.trim().replaceAll(/\s+/g, " ");
}

/** A figure of a page by its name, such as `Balance`; amounts exact. */
export const figureOf = (page: Page, name: string): Promise<string> =>
  page.locator(`dl > div:has(> dt:text-is("${name}")) > dd`).evaluate(exactText);

/** The cells of a table's row by the words of its heading; amounts exact. */
export async function cellsOf(page: Page, heading: string): Promise<string[]> {
  const named = page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: heading }) });
  const cells = await named.first().getByRole("cell").all();
  return Promise.all(cells.map((cell) => cell.evaluate(exactText)));
}
