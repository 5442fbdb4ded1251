import { AccountStatus, KeyStatus } from "#proto/authquota/v1/authquota_pb.ts";
import { until } from "#shared/testing/until.ts";
import type { Round, Scenario } from "../chaos/scenario.ts";
import { planDearStream } from "../e2e/call-mix.ts";
import type { Customer } from "../e2e/world.ts";

const dollar = 1_000_000_000n;
const settledMs = 90_000;

const say = (customer: Customer) => planDearStream(customer, { dialect: "chat", words: 5, gapMs: 1 });

/** What was changed after the moment to which the ledger goes back. */
type Changes = { made: Customer; stopped: Customer; suspended: Customer };

/** Makes a key, stops one, suspends an account and gives money: all of it must be as it was after the failover. */
export async function changeThings({ world }: Scenario, round: Round, before: Changes): Promise<Changes> {
  const { stopped, suspended } = before;
  const made = await round.addCustomer();
  await round.call(say(made));
  await world.authQuota.updateKey({ keyId: stopped.keyId, status: KeyStatus.STOPPED });
  await world.authQuota.updateAccount({ accountId: suspended.accountId, status: AccountStatus.SUSPENDED });
  const [rich] = round.customers;
  if (rich) await round.credit(rich, 5n * dollar);
  return { ...before, made };
}

/** Customers whose settings are changed later; each has made a call by then. */
export async function addChanging(round: Round): Promise<Changes> {
  const [made, stopped, suspended] = [await round.addCustomer(), await round.addCustomer(), await round.addCustomer()];
  for (const customer of [made, stopped, suspended]) await round.call(say(customer));
  return { made, stopped, suspended };
}

/** Checks that the changes hold, with no command but waiting. */
export async function checkThings(round: Round, { made, stopped, suspended }: Changes): Promise<void> {
  const statusOf = async (customer: Customer) => (await round.call({ ...say(customer), isSound: false })).status;
  const isBack = async (): Promise<boolean> => (await statusOf(made)) === 200;
  await until("a key made in the gap works", isBack, settledMs);
  for (const [what, customer] of Object.entries({ "a stopped key": stopped, "a suspended account": suspended })) {
    const status = await statusOf(customer);
    if (status !== 401) round.problems.push(`${what} is answered ${status}`);
  }
}
