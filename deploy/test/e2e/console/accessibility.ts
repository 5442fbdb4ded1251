import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import type { AxeResults, RunOptions } from "axe-core";
import type { Page } from "playwright-core";
import { contrastProblems } from "./contrast.ts";

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const [wide, middle, narrow] = [
  { width: 1_280, height: 800 },
  { width: 768, height: 900 },
  { width: 320, height: 640 },
];

// Little is told of what is right, and the style sheet is not fetched once more for a rule about turned screens.
const few: RunOptions = {
  resultTypes: ["violations"],
  preload: false,
  rules: { "css-orientation-lock": { enabled: false } },
};

/** Fails with what `accessibilityProblems` finds. */
export async function checkAccessibility(page: Page): Promise<void> {
  assert.deepEqual(await accessibilityProblems(page), []);
}

/** The kinds of controls that were looked at, by scheme. */
export type KnownControls = Record<"light" | "dark", Set<number>>;

export const noControls = (): KnownControls => ({ light: new Set(), dark: new Set() });

/**
 * The rules and elements that axe-core objects to on the page as it stands: all light at 1,280 px, and dark at 768 px
 * and light at 320 px as far as that can make a difference; controls that cannot be read in one of their states, in
 * both schemes; and whether it must be scrolled sideways (WCAG 1.4.10). Leaves the window wide and light. What differs
 * by width and scheme is looked at in `part` of the page alone: menus are the same on many.
 */
export async function accessibilityProblems(
  page: Page,
  part: "body" | "main" = "body",
  known: KnownControls = noControls(),
): Promise<string[]> {
  const problems = await axeProblems(page, "light", {}, "body");
  problems.push(...(await contrastProblems(page, part, known.light)).map(inMode("light")));
  await page.setViewportSize(middle);
  await page.emulateMedia({ colorScheme: "dark" });
  problems.push(
    ...(await axeProblems(page, "dark, 768 px", ofLayout, part)),
    ...(await overflowProblems(page, middle)),
    ...(await contrastProblems(page, part, known.dark)).map(inMode("dark")),
  );
  await page.setViewportSize(narrow);
  await page.emulateMedia({ colorScheme: "light" });
  problems.push(
    ...(await axeProblems(page, "light, 320 px", ofLayout, part)),
    ...(await overflowProblems(page, narrow)),
  );
  await page.setViewportSize(wide);
  return problems.map((problem) => `${new URL(page.url()).pathname}: ${problem}`);
}

// What another width or scheme can change.
const ofLayout: RunOptions = { runOnly: ["color-contrast", "target-size"], rules: {} };

async function overflowProblems(page: Page, { width }: { width: number }): Promise<string[]> {
  const needed = await page.evaluate("document.documentElement.scrollWidth");
  return Number(needed) > width ? [`${width} px: ${String(needed)} px wide: ${await widest(page)}`] : [];
}

const inMode =
  (mode: string) =>
  (problem: string): string =>
    `${mode}: ${problem}`;

// The browser evaluates it for the test, beside the page's CSP, which stays as it is.
async function axeProblems(page: Page, mode: string, options: RunOptions, part: string): Promise<string[]> {
  const isThere = await page.evaluate("typeof globalThis.axe === 'object'");
  if (isThere !== true) await page.evaluate(axeSource);
  const results = (await page.evaluate(
    `axe.run(${part === "body" ? "document" : JSON.stringify(part)}, ${JSON.stringify({ ...few, ...options })})`,
  )) as AxeResults;
  return results.violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary = "" }) => `${mode}: ${id}: ${target.join(" ")}: ${failureSummary}`),
  );
}

/** The element that reaches furthest to the right, for the message. */
async function widest(page: Page): Promise<string> {
  const found = await page.evaluate(`
    [...document.querySelectorAll("body *")]
      .filter((element) => element.getBoundingClientRect().right > innerWidth && !element.closest(".scroll table"))
      .map((element) => element.tagName + "." + element.className)
      .slice(0, 5).join(", ")`);
  return String(found);
}
