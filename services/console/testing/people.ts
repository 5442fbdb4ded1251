import assert from "node:assert/strict";
import { Secret, TOTP } from "otpauth";
import type { Role } from "../permissions.ts";
import type { Browser, Fields } from "./browser.ts";
import type { World } from "./console.ts";

export const password = "correct horse battery staple";
export const passwords = { "new-password": password, "repeat-password": password };

/** A person with a browser that is signed in. */
export type TestPerson = { email: string; browser: Browser; personId: string };

let number = 0;

/** Uses the bootstrap token of the world, once; the operator is signed in. */
export async function setUp(world: World): Promise<TestPerson> {
  const browser = world.browser();
  const email = "operator@example.org";
  const done = await browser.fill("/setup", { token: world.bootstrapToken(), email, ...passwords });
  assert.equal(done.location, "/profile/second-factor");
  return { email, browser, personId: await idOf(world, email) };
}

export async function idOf({ database }: World, email: string): Promise<string> {
  const [row] = await database.sql(`SELECT person_id FROM console.person WHERE email = '${email}'`);
  return String(row?.["person_id"]);
}

/** Has somebody invited; tells the path of the link. */
export function invite(by: Browser, accountId: string, email: string, role: Role): Promise<string> {
  if (role === "operator") return inviteOperator(by, email);
  const path = `/accounts/${accountId}/members`;
  return inviteAt(by, path, { action: path, email, role });
}

/** Operators are let in only by who proves again who they are. */
export function inviteOperator(
  by: Browser,
  email: string,
  proof: { password: string } | { code: string } = { password },
): Promise<string> {
  return inviteAt(by, "/operator/people", { action: "/operator/people/operators", email, ...proof });
}

async function inviteAt(by: Browser, path: string, { action, ...fields }: Fields & { action: string }) {
  await by.get(path);
  const made = await by.post(action, fields);
  assert.equal(made.title, "Invitation made", made.text);
  return /https?:\/\/[\w.:]+(\/invitations\/[\w-]{43})/.exec(made.text)?.[1] ?? "";
}

/** A new person with a role in an account, signed in. */
export async function join(world: World, by: Browser, accountId: string, role: Role): Promise<TestPerson> {
  number += 1;
  const email = `${role}-${number}@example.org`;
  const link = await invite(by, accountId, email, role);
  const browser = world.browser();
  const accepted = await browser.fill(link, passwords);
  assert.equal(accepted.status, 303, accepted.text);
  return { email, browser, personId: await idOf(world, email) };
}

/** Signs somebody in anew. */
export async function signIn(world: World, email: string, given = password): Promise<Browser> {
  const browser = world.browser();
  await browser.fill("/sign-in", { email, password: given });
  return browser;
}

/** Sets the second factor up; tells codes of its app and the recovery codes. */
export async function enrol(world: World, browser: Browser): Promise<{ code: () => string; recovery: string[] }> {
  const path = "/profile/second-factor";
  const page = await browser.submit(path, {}, `${path}/begin`);
  const typed = /<code>([A-Z2-7-]+)<\/code>/.exec(page.text)?.[1]?.replaceAll("-", "") ?? "";
  assert.match(page.text, /<svg class="qr"/);
  const totp = new TOTP({ secret: Secret.fromBase32(typed) });
  const code = (): string => totp.generate({ timestamp: world.clock.nowMs() });
  const done = await browser.post(`${path}/confirm`, { code: code(), password });
  assert.equal(done.title, "Recovery codes", done.text);
  const recovery = [...done.text.matchAll(/<li><code>([A-Z2-9-]+)<\/code>/g)].map((match) => match[1] ?? "");
  assert.equal(recovery.length, 10);
  // A code is of no use twice: the next one comes half a minute later.
  world.clock.moveMs += 30_000;
  return { code, recovery };
}
