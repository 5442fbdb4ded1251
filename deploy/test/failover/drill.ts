import type { Round, Scenario, ScenarioOptions } from "../chaos/scenario.ts";

/** What a drill needs beside the system, and what it does to it while calls run. */
export type Staged = {
  scene?: Partial<ScenarioOptions>;
  /** Statuses that callers may get besides 503. */
  alsoAllowed?: readonly number[];
  harm: (scenario: Scenario, round: Round) => Promise<void>;
  /** What else is wrong when the system is at rest. */
  afterwards?: (scenario: Scenario) => Promise<string[]>;
};

/** A failover that is tried. `stage` starts the stores that it is about; they end with `resources`. */
export type Drill = {
  name: string;
  says: string;
  stage: (resources: AsyncDisposableStack) => Promise<Staged>;
};
