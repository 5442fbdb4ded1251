import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { startFakeStripe, type FakeStripe } from "../../../../services/console/testing/fake-stripe.ts";
import { startMailbox, type Mailbox } from "../../../../services/console/testing/mailbox.ts";
import { startWorld, type World, type WorldOptions } from "../world.ts";
import { startBrowser, type TestBrowser } from "./browser.ts";
import { type Person, setUp } from "./people.ts";

/** The whole system as `npm start` runs it, its console open in a browser, and the operator who has set it up. */
export type Site = AsyncDisposable & {
  world: World;
  browser: TestBrowser;
  operator: Person;
  stripe: FakeStripe;
  mailbox: Mailbox;
};

const webhookSecret = "whsec_of_the_tests";

type SiteOptions = WorldOptions & {
  /** Looks at the page for the first operator, which is gone after it. */
  beforeSetUp?: (page: Page) => Promise<void>;
};

/** Starts system and browser and makes the first operator in the page. */
export async function startSite(options: SiteOptions = {}): Promise<Site> {
  await using resources = new AsyncDisposableStack();
  const stripe = resources.use(await startFakeStripe({ webhookSecret }));
  const mailbox = resources.use(await startMailbox());
  const folder = resources.use(await mkdtempDisposable(join(tmpdir(), "console-payments-")));
  const fileOf = async (name: string, text: string): Promise<string> => {
    const file = join(folder.path, name);
    await writeFile(file, text);
    return file;
  };
  const console = {
    // All people of a test come from one address.
    GUESSES_PER_MINUTE: "1000",
    STRIPE_SECRET_KEY_FILE: await fileOf("key", "sk_test_of_the_tests"),
    STRIPE_WEBHOOK_SECRET_FILE: await fileOf("webhook", webhookSecret),
    STRIPE_API_URL: stripe.url,
    // Nobody is there: pages show what an issuer adds to them.
    OIDC_ISSUER: "https://issuer.invalid",
    OIDC_CLIENT_ID: "console",
    OIDC_CLIENT_SECRET_FILE: await fileOf("oidc", "secret"),
    OIDC_NAME: "Example",
    DOMAIN_SIGN_IN: "on",
    SMTP_URL_FILE: mailbox.urlFile,
    MAIL_FROM: "relay@example.org",
  };
  const world = resources.use(await startWorld({ ...options, console }));
  stripe.webhookUrl = `${world.stack.console?.url ?? ""}/payments/stripe/webhook`;
  const browser = resources.use(await startBrowser(world.stack.console?.url ?? ""));
  const page = await browser.open();
  await page.goto("/setup");
  await options.beforeSetUp?.(page);
  const operator = await setUp(world, page);
  const owned = resources.move();
  return { world, browser, operator, stripe, mailbox, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
