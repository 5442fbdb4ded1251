import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { chat, makeCall } from "../e2e/ask.ts";
import { credit, inviteInto, makeAccount } from "../e2e/console/people.ts";
import { type Site, startSite } from "../e2e/console/site.ts";

// Takes the pictures of the console's README anew: eight pages, light and dark, wide and on a phone.
const folder = join(import.meta.dirname, "../../../services/console/pictures");
const accountId = "acme";
const schemes = ["light", "dark"] as const;
const windows = [
  { width: 1_280, height: 800 },
  { width: 390, height: 844 },
];

await mkdir(folder, { recursive: true });
await using site = await startSite();
const page = await seedAccount(site);
const [line] = await site.world.ledgerOf(accountId);
const base = `/accounts/${accountId}`;
const pages = {
  overview: base,
  keys: `${base}/keys`,
  "quick-start": `${base}/quick-start`,
  activity: `${base}/activity`,
  call: `${base}/calls/${line?.rid ?? ""}`,
  usage: `${base}/usage?group=model`,
  playground: `${base}/playground`,
  models: `${base}/models`,
};
for (const [name, path] of Object.entries(pages)) {
  for (const colorScheme of schemes) {
    for (const window of windows) {
      await takePicture(page, { name, path, colorScheme, window });
    }
  }
}
site.browser.check();

/** An account with money, two keys and some calls, open in a window of its owner. */
async function seedAccount({ world, browser, operator }: Site): Promise<Page> {
  await makeAccount(operator, "Acme Robotics", accountId);
  await credit(operator, accountId, "25");
  const owner = await inviteInto(browser, operator, accountId);
  const keys = [await world.createKey(accountId, { name: "Website" })];
  keys.push(await world.createKey(accountId, { name: "Nightly report", limitNanos: 10_000_000_000n }));
  const inputs = [41_000, 1_280, 128_500, 9_400, 2_200, 64_000];
  for (const [index, inputTokens] of inputs.entries()) {
    const { secret } = keys[index % keys.length] ?? { secret: "" };
    const behaviour = { usage: { inputTokens, outputTokens: 900 } };
    await makeCall(world.relayUrl, secret, { side: chat, isStream: index % 2 === 0, behaviour });
  }
  await world.untilSettled(accountId, inputs.length);
  return owner.page;
}

type Picture = {
  name: string;
  path: string;
  colorScheme: (typeof schemes)[number];
  window: { width: number; height: number };
};

async function takePicture(from: Page, { name, path, colorScheme, window }: Picture): Promise<void> {
  await from.emulateMedia({ colorScheme });
  await from.setViewportSize(window);
  await from.goto(path);
  const file = join(folder, `${name}-${colorScheme}-${window.width}.png`);
  await from.screenshot({ path: file, animations: "disabled", caret: "hide" });
}
