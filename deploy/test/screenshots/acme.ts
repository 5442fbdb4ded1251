import { timestampFromDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Page } from "playwright-core";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { startWorld, type World } from "../../../services/console/testing/console.ts";
import { join, setUp } from "../../../services/console/testing/people.ts";
import { startBrowser, type TestBrowser } from "../e2e/console/browser.ts";
import { styleOfPictures } from "./fonts.ts";

/** The instant at which all pictures are taken. */
const now = new Date("2026-11-26T15:30:00Z");

const accountId = "acme";
const dayMs = 86_400_000;
const minuteMs = 60_000;
const models = ["chat-large", "chat-large", "embed-small"];
const keys = ["Website", "Nightly report"];

/** A console whose account has used it for a month, the same in each run, open in a window of its owner. */
export type PictureSite = AsyncDisposable & {
  page: Page;
  browser: TestBrowser;
  /** Paths by the names of the pictures. */
  paths: Readonly<Record<string, string>>;
};

/** Starts it: the console itself on PostgreSQL, and neighbours that tell what is written here. */
export async function startAcme(): Promise<PictureSite> {
  await using resources = new AsyncDisposableStack();
  const world = resources.use(await startWorld({ PUBLIC_URL: "http://localhost", ALLOW_PLAIN_HTTP: "loopback" }));
  const operator = await setUp(world);
  world.neighbours.addAccount(accountId, "Acme Robotics");
  const { browser: ownerWithoutScript } = await join(world, operator.browser, accountId, "owner");
  await ownerWithoutScript.get("/accounts");
  Object.assign(world.clock, { nowMs: () => now.getTime() });
  const rid = useForMonth(world);
  const url = `http://127.0.0.1:${world.app.httpPort}`;
  const browser = resources.use(await startBrowser(url));
  const page = await browser.open({ isStyled: true });
  const [name, value] = [...ownerWithoutScript.cookies].find(([cookie]) => cookie === "session") ?? ["", ""];
  await page.context().addCookies([{ name, value, url }]);
  await page.clock.setFixedTime(now);
  await page.addInitScript({ content: await styleOfPictures() });
  const base = `/accounts/${accountId}`;
  const paths = {
    overview: base,
    keys: `${base}/keys`,
    "quick-start": `${base}/quick-start`,
    activity: `${base}/activity`,
    call: `${base}/calls/${rid}`,
    usage: `${base}/usage?group=model`,
    playground: `${base}/playground`,
    models: `${base}/models`,
  };
  const owned = resources.move();
  return { page, browser, paths, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Money, two keys, and calls on each of thirty days; tells the request id of the last one. */
function useForMonth({ neighbours }: World): string {
  const { usage, balances, held, spent, charged } = neighbours;
  held.nanos = 34_000_000n;
  const paid = 250_000_000_000n;
  usage.book(now.getTime() - 29.5 * dayMs, { accountId, kind: LineKind.CREDIT, amountNanos: paid });
  const keyIds = keys.map((name) => neighbours.addKey(accountId, name));
  let charges = 0n;
  let rid = "";
  for (let day = 29; day >= 0; day -= 1) {
    // Fewer at week-ends.
    const isFree = new Date(now.getTime() - day * dayMs).getUTCDay() % 6 === 0;
    const calls = isFree ? 2 : 4 + (day % 4);
    for (let call = calls; call > 0; call -= 1) {
      const at = now.getTime() - day * dayMs - call * 37 * minuteMs;
      rid = usage.bookCall(accountId, at, {
        keyId: keyIds[call % 2] ?? "",
        modelRequested: models[call % 3] ?? "",
        usage: { inputTokens: BigInt(21_000 + 9_000 * call + 1_700 * day), outputTokens: BigInt(900 + 170 * call) },
        ...(day % 9 === 4 && call === 1 && { endCause: EndCause.UPSTREAM_ERROR, httpStatus: 502 }),
      });
    }
  }
  for (const line of usage.lines) charges += line.usage ? -line.amountNanos : 0n;
  balances.set(accountId, paid - charges);
  for (const [index, keyId] of keyIds.entries()) {
    spent.set(keyId, (charges * BigInt(index + 1)) / 3n);
    charged.set(keyId, new Date(now.getTime() - (index + 1) * 37 * minuteMs));
    const key = neighbours.keys.get(keyId);
    if (key) key.createdAt = timestampFromDate(new Date(now.getTime() - (29 - index) * dayMs));
    if (key && index === 1) key.limitNanos = 150_000_000_000n;
  }
  neighbours.relays.state.startedAt = timestampFromMs(now.getTime() - dayMs);
  return rid;
}
