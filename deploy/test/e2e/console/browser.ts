import assert from "node:assert/strict";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { findBrowser } from "#shared/testing/binaries.ts";

const executablePath = findBrowser();

/**
 * What `describe` takes: browser tests are skipped, and say why, on a machine without a browser. All of a suite's pages
 * together take longer than a test may, on a machine that does other things too.
 */
export const needsBrowser = {
  timeout: 400_000,
  skip: executablePath === undefined && "there is no Chromium: `npm test` installs it, or says how",
};

/** Everything that went wrong in a person's pages, in the browser's words. */
type WatchedPage = { problems: string[] };

type WindowOptions = {
  hasScript?: boolean;
  /** Whether tests may put styles of their own into pages, which the console's policy forbids. */
  isStyled?: boolean;
};

/** A running browser. Disposal ends it. */
export type TestBrowser = AsyncDisposable & {
  /** Opens a window with cookies of its own; `hasScript: false` for somebody whose browser runs no script. */
  open: (options?: WindowOptions) => Promise<Page>;
  /** Fails when anything went wrong in a page since the last check: errors, failed requests, the CSP. */
  check: () => void;
};

/** Starts Chromium without a screen. */
export async function startBrowser(baseURL: string): Promise<TestBrowser> {
  // As root Chromium refuses to sandbox itself, as in a container.
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  const browser = await chromium.launch({ executablePath: executablePath as string, args });
  const watched: WatchedPage = { problems: [] };
  return {
    open: ({ hasScript = true, isStyled = false } = {}) =>
      openWindow(browser, watched, { baseURL, javaScriptEnabled: hasScript, bypassCSP: isStyled }),
    check: () => assert.deepEqual(watched.problems.splice(0), []),
    [Symbol.asyncDispose]: () => browser.close(),
  };
}

// Long, for machines on which much else runs; nothing waits for it that works.
const stepMs = 20_000;

async function openWindow(browser: Browser, watched: WatchedPage, options: BrowserContextOptions): Promise<Page> {
  const context = await browser.newContext({
    viewport: { width: 1_280, height: 800 },
    locale: "en-US",
    timezoneId: "UTC",
    colorScheme: "light",
    // Colors are read while states change: nothing may be on its way between two.
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
    ...options,
  });
  context.setDefaultTimeout(stepMs);
  const page = await context.newPage();
  watch(page, watched);
  return page;
}

// What the browser does itself: leaving a page or keeping an answer as a file, and not sending a form again by itself.
const ownDoing = new Set(["net::ERR_ABORTED", "net::ERR_CACHE_MISS"]);

function watch(page: Page, { problems }: WatchedPage): void {
  const add = (what: string): void => void problems.push(`${page.url()}: ${what}`);
  // A violation of the CSP comes as an error of the console, too. Answers are looked at below.
  page.on("console", (message) => {
    const isOfAnswer = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !isOfAnswer) add(message.text());
  });
  page.on("pageerror", (error) => add(String(error)));
  page.on("dialog", (dialog) => {
    add(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("requestfailed", (request) => {
    const { errorText = "" } = request.failure() ?? {};
    if (!ownDoing.has(errorText)) add(`${request.method()} ${request.url()}: ${errorText}`);
  });
  page.on("response", (response) => {
    const isPage = response.request().resourceType() === "document";
    if (response.status() >= (isPage ? 500 : 400)) add(`${response.url()}: ${response.status()}`);
  });
}
