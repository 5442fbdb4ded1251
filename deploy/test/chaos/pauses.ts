import { setTimeout as pause } from "node:timers/promises";
import type { ServiceName } from "../../tools/local/stack.ts";
import { type Round, type Scenario, signal } from "./scenario.ts";
import { serviceOf } from "./process-faults.ts";

/** Lets a service stand still for a while, with all its connections open, and go on as if nothing had been. */
export async function pauseService(
  scenario: Scenario,
  round: Round,
  { name, forMs }: { name: ServiceName; forMs: number },
): Promise<void> {
  const service = serviceOf(scenario, name);
  round.isUnnoticed = name === "billing";
  await round.more(scenario.random.between(20, 60));
  signal(service, "SIGSTOP");
  await pause(forMs);
  signal(service, "SIGCONT");
  await round.more(60);
}
