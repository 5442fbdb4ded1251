import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { jetstream } from "@nats-io/jetstream";
import type { Page } from "playwright-core";
import { connectNats } from "#shared/testing/nats-login.ts";
import { until } from "#shared/testing/until.ts";
import { chat, makeCall, ridOf } from "../ask.ts";
import { submitVideo, videoOf } from "../videos.ts";
import type { Customer, World } from "../world.ts";
import { openInvitation, password, type Person, press, seeHeading } from "./people.ts";
import type { Site } from "./site.ts";

const batchId = randomUUID();

/** What stands for the parameters of paths. */
export type SeededPaths = { parameters: Readonly<Record<string, string>>; paths: Readonly<Record<string, string>> };

/** Paths that answer with no page of their own: the start, files, pieces of pages, the way back from an issuer. */
export const notPages: readonly string[] = [
  "/",
  "/accounts/:accountId/figures",
  "/accounts/:accountId/spending",
  "/accounts/:accountId/activity/newest",
  "/accounts/:accountId/keys/:keyId/first-call",
  "/accounts/:accountId/usage.csv",
  "/accounts/:accountId/ledger.csv",
  "/accounts/:accountId/ledger.pdf",
  "/accounts/:accountId/receipts/:lineId",
  "/operator/business.csv",
  "/operator/installation/catalog/versions/file",
  "/operator/installation/state",
  "/operator/calls/:rid",
  "/operator/reports/:day/:file",
  "/sign-in/oidc/callback",
];

/** Has a message that is no usage record in the usage stream; tells its id in the quarantine. */
async function quarantine({ stack, billing }: World): Promise<string> {
  const connection = await connectNats(stack.stores.urls.nats);
  try {
    await jetstream(connection).publish("usage.v1.record", "<img src=x onerror=alert(1)>");
  } finally {
    await connection.close();
  }
  const found = await until("a message in the quarantine", async () => (await billing.listQuarantine({})).records[0]);
  return String(found?.quarantineId ?? "");
}

const lastPart = (page: Page): string => new URL(page.url()).pathname.split("/").at(-1) ?? "";

/** Has every sort of thing made once that a page shows. */
export async function seed(site: Site, owner: Person, { accountId, keyId, secret }: Customer, model: string) {
  const { world, browser, operator } = site;
  const { relayUrl } = world;
  const calls = [
    await makeCall(relayUrl, secret, { side: chat, model, isStream: false }),
    await makeCall(relayUrl, secret, { side: chat, isStream: true }),
  ];
  // Refused, for a model that is none.
  await makeCall(relayUrl, secret, { side: chat, model: "a-model-that-is-none", isStream: false });
  const task = videoOf(await submitVideo({ relayUrl, secret }));
  const [rid = ""] = calls.map(ridOf);
  await world.billing.createVouchers({ batchId, amountNanos: 10_000_000_000n, codeHashes: [randomBytes(32)] });
  const guest = await openInvitation(browser, operator, { accountId, email: "guest@example.org", role: "viewer" });
  const removal = operator.page.getByRole("link", { name: `Remove ${owner.email}` });
  await operator.page.goto(`/accounts/${accountId}/members`);
  const personId = (await removal.getAttribute("href"))?.split("/").at(-2) ?? "";
  await owner.page.goto(`/accounts/${accountId}/alerts`);
  await owner.page.getByLabel("Balance below, in USD").fill("1000");
  await press(owner.page, "Save");
  await owner.page.getByLabel("Address").fill("https://example.invalid/hook");
  await press(owner.page, "Add webhook");
  await owner.page.goto(`/accounts/${accountId}/members/domains`);
  await owner.page.getByLabel("Domain").fill("company.example");
  await press(owner.page, "Claim");
  await owner.page.goto(`/accounts/${accountId}/top-up`);
  await owner.page.getByLabel("Amount in USD").fill("20");
  await press(owner.page, "Continue to payment");
  await owner.page.getByRole("button", { name: "Pay" }).click();
  await seeHeading(owner.page, "Your payment");
  const resetPage = `/operator/people/${personId}/password-reset`;
  await operator.page.goto(resetPage);
  await operator.page.getByLabel("Your password").fill(password);
  await press(operator.page, "Make the link");
  const reset = (await operator.page.locator("code.secret").innerText()).split("/").at(-1) ?? "";
  await world.untilBooked(accountId, rid);
  const today = new Date().toISOString().slice(0, 10);
  await world.billing.reconcile({ day: today });
  const quarantineId = await quarantine(world);
  const topUpId = lastPart(owner.page);
  return {
    parameters: {
      accountId,
      keyId,
      rid,
      taskId: task.id,
      personId,
      batchId,
      topUpId,
      quarantineId,
      token: lastPart(guest),
    },
    paths: {
      "/operator/accounts/:id": `/operator/accounts/${accountId}`,
      "/operator/installation/catalog/test": `/operator/installation/catalog/test?upstream=main&model=${model}`,
      "/operator/people/:id/password-reset": resetPage,
      "/operator/reports": `/operator/reports?day=${today}`,
      "/password-resets/:token": `/password-resets/${reset}`,
    },
  };
}

/** The path of a page; fails when nothing was seeded for one of its parameters. */
export function pathOf(pattern: string, { parameters, paths }: SeededPaths): string {
  const path = paths[pattern] ?? pattern.replaceAll(/:(\w+)/g, (whole, name: string) => parameters[name] ?? whole);
  assert.doesNotMatch(path, /:/, `${pattern} needs something that \`seed\` makes`);
  return path;
}
