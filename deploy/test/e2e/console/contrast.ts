import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { CDPSession, Page } from "playwright-core";

const inPage = readFileSync(join(import.meta.dirname, "contrast-in-page.js"), "utf8")
  .trim()
  .replace(/;$/, "");

// What a pointer and a keyboard do to a control; a pressed one is under the pointer and has the focus.
const states: Readonly<Record<string, readonly string[]>> = {
  default: [],
  hover: ["hover"],
  "focus-visible": ["focus", "focus-visible"],
  active: ["hover", "focus", "active"],
  disabled: [],
};

/**
 * Controls of a part of the page, in any state, whose text has less contrast than WCAG 2.2 asks for at level AA, or
 * that show no outline when a keyboard has come to them. axe-core sees only the default state, and takes text in the
 * very color of its background for something that it cannot judge. One control of each kind is looked at that is not
 * among those `known`, to which theirs are added: what the style sheet cannot tell apart looks the same.
 */
export async function contrastProblems(page: Page, part: string, known: Set<number>): Promise<string[]> {
  const kinds = await inside<number[]>(page, `mark(${JSON.stringify(part)}, ${JSON.stringify([...known])})`);
  if (kinds.length === 0) return [];
  for (const kind of kinds) known.add(kind);
  const session = await page.context().newCDPSession(page);
  try {
    const problems: string[] = [];
    const nodeIds = await markedControls(session);
    for (const [state, forcedPseudoClasses] of Object.entries(states)) {
      await Promise.all(nodeIds.map((nodeId) => forceState(session, nodeId, [...forcedPseudoClasses])));
      problems.push(...(await (state === "disabled" ? disabledProblems(page) : problemsIn(page, state))));
    }
    return problems;
  } finally {
    await page.evaluate(`for (const one of document.querySelectorAll("[data-looked]")) delete one.dataset.looked;`);
    // Takes the forced states off, too.
    await session.detach();
  }
}

// The browser evaluates it for the test, beside the page's CSP, which stays as it is.
async function inside<Result>(page: Page, call: string): Promise<Result> {
  return (await page.evaluate(`${inPage}.${call}`)) as Result;
}

/** A live part may have been put in the place of the one that held the node: the new one stays in its default state. */
async function forceState(session: CDPSession, nodeId: number, forcedPseudoClasses: string[]): Promise<void> {
  await session.send("CSS.forcePseudoState", { nodeId, forcedPseudoClasses }).catch((error: unknown) => {
    if (!String(error).includes("Could not find node")) throw error;
  });
}

async function markedControls(session: CDPSession): Promise<number[]> {
  await session.send("DOM.enable");
  await session.send("CSS.enable");
  const { root } = await session.send("DOM.getDocument", { depth: 0 });
  return (await session.send("DOM.querySelectorAll", { nodeId: root.nodeId, selector: "[data-looked]" })).nodeIds;
}

const problemsIn = (page: Page, state: string): Promise<string[]> => inside(page, `look(${JSON.stringify(state)})`);

/** A control that is switched off is exempt from WCAG's figures, but people read what it says all the same. */
async function disabledProblems(page: Page): Promise<string[]> {
  const enabled = `[...document.querySelectorAll("button, input, select, textarea")].filter((one) => !one.disabled)`;
  await page.evaluate(`globalThis.switchedOff = ${enabled}; for (const one of switchedOff) one.disabled = true;`);
  const problems = await problemsIn(page, "disabled");
  await page.evaluate("for (const one of switchedOff) one.disabled = false; delete globalThis.switchedOff;");
  return problems;
}
