import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import type { World } from "../world.ts";
import type { TestBrowser } from "./browser.ts";

export const password = "correct horse battery staple";

/** Somebody with a window in which they are signed in. */
export type Person = { email: string; page: Page };

/** Clicks what does something, by its words, and waits until the page that it leads to is there. */
export async function press(page: Page, name: string): Promise<void> {
  await Promise.all([
    page.waitForEvent("domcontentloaded"),
    page.locator("main").getByRole("button", { name, exact: true }).first().click(),
  ]);
}

/** Fails when the heading is another one; then with what the page says. */
export async function seeHeading(page: Page, wanted: string): Promise<void> {
  const heading = await page.getByRole("heading", { level: 1 }).innerText();
  assert.equal(heading, wanted, await page.locator("main").innerText());
}

/** What the page says first about what was done. */
export const noticeOf = (page: Page): Promise<string> => page.getByRole("status").first().innerText();

/** Makes the first operator by the bootstrap token, in the page. */
export async function setUp(world: World, page: Page): Promise<Person> {
  const email = "operator@example.org";
  await page.getByLabel("Token").fill(world.stack.console?.bootstrapToken ?? "");
  await page.getByLabel("E-mail address").fill(email);
  await choosePassword(page);
  await press(page, "Set up");
  assert.match(await noticeOf(page), /The console is set up/);
  await page.getByRole("link", { name: "Later" }).click();
  await page.getByRole("link", { name: "Set up a second factor" }).waitFor();
  return { email, page };
}

async function choosePassword(page: Page): Promise<void> {
  await page.getByLabel("New password", { exact: true }).fill(password);
  await page.getByLabel("Repeat the new password").fill(password);
}

/** Signs somebody in. */
export async function signIn(page: Page, email: string): Promise<void> {
  await page.goto("/sign-in");
  await page.getByLabel("E-mail address").fill(email);
  await page.getByLabel("Password").fill(password);
  await press(page, "Sign in");
}

/** An operator makes an account in the page; tells its id. */
export async function makeAccount({ page }: Person, name: string, id = ""): Promise<string> {
  await page.goto("/operator/accounts/new");
  await page.getByLabel("Name").fill(name);
  await page.getByLabel("Id").fill(id);
  await press(page, "Create account");
  await seeHeading(page, name);
  return page.url().split("/").at(-1) ?? "";
}

type InvitedMember = { accountId: string; email: string; role: string };

/** Invites somebody in the page; gives a window of theirs that shows the invitation. */
export async function openInvitation(browser: TestBrowser, by: Person, invited: InvitedMember): Promise<Page> {
  const { accountId, email, role } = invited;
  await by.page.goto(`/accounts/${accountId}/members`);
  await by.page.getByLabel("E-mail address").fill(email);
  await by.page.getByLabel("Role", { exact: true }).selectOption(role);
  await press(by.page, "Invite");
  const link = /\S+\/invitations\/\S+/.exec(await by.page.locator("main").innerText())?.[0] ?? "";
  const page = await browser.open();
  await page.goto(link);
  return page;
}

/** Somebody new with a role in an account, invited and accepted in the pages. */
export async function inviteInto(browser: TestBrowser, by: Person, accountId: string, role = "owner"): Promise<Person> {
  const email = `${role}@${accountId.replaceAll("_", "-")}.example.org`;
  const page = await openInvitation(browser, by, { accountId, email, role });
  await choosePassword(page);
  await press(page, "Accept");
  assert.match(await noticeOf(page), /Welcome/);
  return { email, page };
}

/** An operator books a payment in the page. */
export async function credit({ page }: Person, accountId: string, usd: string): Promise<void> {
  await page.goto(`/operator/accounts/${accountId}`);
  await page.getByLabel("Amount in USD").first().fill(usd);
  await page.getByLabel("Payment id").fill(`payment-${accountId}-${usd}`);
  await press(page, "Book credit");
  assert.match(await noticeOf(page), /^Booked /);
}
