import { prepareStores, thisMachine } from "../tools/local/machine.ts";
import { shareTwoCores } from "./cores.ts";
import { renderMoney, type MoneyOutcome, type MoneyPlan } from "./money-outcome.ts";

/** What measures one kind of work with money. */
type Measure = (plan: MoneyPlan) => Promise<MoneyOutcome>;

/**
 * Measures on two cores that everything shares, one after the other, prints what was found, and makes the process fail
 * when books are wrong; how fast it was is no reason to fail.
 */
export async function measureMoney(measures: Measure[], plan: MoneyPlan): Promise<MoneyOutcome[]> {
  const { say } = plan;
  await prepareStores(["redis", "nats", "postgres"], thisMachine(say));
  say(shareTwoCores() ? "two cores, shared by everything" : "NOT PINNED: no taskset, or one core only");
  const outcomes: MoneyOutcome[] = [];
  for (const measure of measures) outcomes.push(await measure(plan));
  say(`\n${renderMoney(outcomes)}`);
  if (outcomes.some(({ complaints }) => complaints.length > 0)) process.exitCode = 1;
  return outcomes;
}
