import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Outside } from "../app.ts";
import type { Config } from "../config.ts";
import type { Browser, SeenPage } from "./browser.ts";
import { startWorld, type World } from "./console.ts";
import { startIssuer, type Issuer } from "./oidc-provider.ts";
import { setUp, type TestPerson } from "./people.ts";

export const sessionCookie = "__Host-session";

/** A console with an issuer, its operator, and the account `acme`. */
export type IssuerWorld = AsyncDisposable & { world: World; issuer: Issuer; operator: TestPerson };

/** Starts both. */
export async function startIssuerWorld(change: Partial<Config> = {}, outside?: Outside): Promise<IssuerWorld> {
  await using resources = new AsyncDisposableStack();
  const issuer = resources.use(await startIssuer());
  const folder = resources.use(await mkdtempDisposable(join(tmpdir(), "console-oidc-")));
  const secretFile = join(folder.path, "secret");
  writeFileSync(secretFile, `${issuer.clientSecret}\n`);
  const settings = {
    ALLOW_PLAIN_HTTP: "loopback",
    OIDC_ISSUER: issuer.url,
    OIDC_CLIENT_ID: issuer.clientId,
    OIDC_CLIENT_SECRET_FILE: secretFile,
    OIDC_NAME: "Example <Login>",
  } as const;
  const world = resources.use(await startWorld({ ...settings, ...change }, outside));
  const operator = await setUp(world);
  world.neighbours.addAccount("acme");
  const owned = resources.move();
  return { world, issuer, operator, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Where the page sends the browser. */
export function leadsTo(seen: SeenPage): URL {
  assert.equal(seen.status, 200, seen.text);
  const url = /^0; url=(.+)$/.exec(seen.headers.get("refresh") ?? "")?.[1] ?? "";
  return new URL(url);
}

export async function begin(browser: Browser, next = "/"): Promise<URL> {
  await browser.get("/sign-in");
  return leadsTo(await browser.post("/sign-in/oidc", { next }));
}

/** What the page is to say, or where it is when that is nothing. */
export const noteOf = ({ location }: SeenPage): string =>
  new URL(location, "https://a").searchParams.get("note") ?? location;
