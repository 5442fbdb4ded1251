import type { Page } from "playwright-core";

const maxTabs = 80;

/** Tabs on until the field with this id, or the link or button with these words, has the focus. */
export async function tabTo(page: Page, wanted: string): Promise<void> {
  const seen: string[] = [];
  for (let tabs = 0; tabs < maxTabs; tabs += 1) {
    await page.keyboard.press("Tab");
    const focused = await page.evaluate("[document.activeElement?.id, document.activeElement?.textContent?.trim()]");
    if ((focused as string[]).includes(wanted)) return;
    seen.push(String(focused));
  }
  throw new Error(`no ${wanted} within ${maxTabs} tabs: ${seen.join("; ")}`);
}

/** Presses Enter and waits for the page that it leads to. */
export async function enter(page: Page): Promise<void> {
  await Promise.all([page.waitForEvent("domcontentloaded"), page.keyboard.press("Enter")]);
}
