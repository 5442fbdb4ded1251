import { gzipSync } from "node:zlib";
import type { Page, Response } from "playwright-core";

/** What a page costs a browser that has nothing of it yet. */
export type PageCost = {
  /** Of the page and everything that it loads, each compressed by itself, as a proxy in front does. */
  compressedBytes: number;
  /** What moved after it was first drawn, in the words of the browser. */
  shifts: string[];
};

// Two frames after all is loaded, which is when scripts have done what they do at once.
const shiftsInPage = `new Promise((resolve) => {
  const shifts = [];
  const note = (list) => shifts.push(...list.getEntries().filter((entry) => !entry.hadRecentInput));
  new PerformanceObserver(note).observe({ type: "layout-shift", buffered: true });
  const words = ({ value, sources }) =>
    value.toFixed(4) + ": " + sources.map(({ node }) => (node?.outerHTML ?? String(node)).slice(0, 120)).join(", ");
  const tell = () => setTimeout(() => resolve(shifts.map(words)));
  requestAnimationFrame(() => requestAnimationFrame(tell));
})`;

/** Opens a page without the browser's cache. */
export async function costOf(page: Page, path: string): Promise<PageCost> {
  const browser = await page.context().newCDPSession(page);
  await browser.send("Network.enable");
  await browser.send("Network.setCacheDisabled", { cacheDisabled: true });
  const answers: Response[] = [];
  const keep = (answer: Response): void => void answers.push(answer);
  page.on("response", keep);
  await page.goto(path, { waitUntil: "networkidle" });
  page.off("response", keep);
  const shifts = (await page.evaluate(shiftsInPage)) as string[];
  const bodies = await Promise.all(answers.map((answer) => answer.body().catch(() => Buffer.alloc(0))));
  await browser.detach();
  return { compressedBytes: bodies.reduce((all, body) => all + gzipSync(body).length, 0), shifts };
}
