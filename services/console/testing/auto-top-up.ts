import assert from "node:assert/strict";
import { until } from "#shared/testing/until.ts";
import type { PaymentEnvironment } from "./paying.ts";
import type { TestPerson } from "./people.ts";

const usd = 1_000_000_000n;
export const autoPath = "/accounts/acme/top-up/automatic";
export const rule = { state: "on", threshold: "10", amount: "20", cap: "1000" };

/** Helpers of the tests of automatic top-ups, for the account `acme`. */
export function autoTopUps({ world, stripe }: PaymentEnvironment, owner: TestPerson) {
  const { sql } = world.database;
  const compareAgain = () => sql("UPDATE console.auto_top_up SET checked_at = '-infinity'");
  const charges = () =>
    sql("SELECT state, problem, payment_id AS id FROM console.top_up WHERE is_automatic ORDER BY created_at");
  return {
    charges,
    compareAgain,
    /** Pays once and has the card kept. */
    saveCard: async (choice = "yes", by = owner) => {
      await by.browser.get("/accounts/acme/top-up");
      const sent = await by.browser.post("/accounts/acme/top-up/checkout", { amount: "5", "save-card": choice });
      const session = stripe.pay(sent.location.replace(`${stripe.url}/pay/`, ""));
      await by.browser.get(new URL(session.success_url).pathname);
      return session;
    },
    save: (fields: Partial<typeof rule> = {}) => owner.browser.fill(autoPath, { ...rule, ...fields }),
    setBalance: (dollars: bigint) => world.neighbours.balances.set("acme", dollars * usd),
    balance: () => (world.neighbours.balances.get("acme") ?? 0n) / usd,
    /** Compares again and again until the newest charge is in this state. */
    untilNewest: (state: string) =>
      until(`the newest charge is ${state}`, async () => {
        await compareAgain();
        return (await charges()).at(-1)?.["state"] === state;
      }),
    /** Has every replica compare, some times over. */
    settleDown: async () => {
      for (let round = 0; round < 3; round += 1) {
        await compareAgain();
        await until("the rules are compared with", async () => {
          const waiting = await sql("SELECT FROM console.auto_top_up WHERE is_on AND checked_at = '-infinity'");
          return waiting.length === 0;
        });
      }
    },
    /** Lets a charge of which nothing was heard be looked at now. */
    lookAgain: () => sql("UPDATE console.top_up SET looked_at = now() - interval '2 minutes' WHERE state = 'begun'"),
    credited: (): string[] => {
      const credits = world.neighbours.received.filter(({ method }) => method === "credit");
      return [...new Set(credits.map(({ request }) => (request as { paymentId: string }).paymentId))];
    },
    forget: async () => {
      // The cap is of the month, and each test has its own.
      await sql("UPDATE console.top_up SET created_at = created_at - interval '40 days'");
      world.neighbours.received.length = 0;
      assert.equal(stripe.cards.decline, undefined);
    },
  };
}
