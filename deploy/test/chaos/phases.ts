import { runCuts } from "./cuts.ts";
import { runKills } from "./kills.ts";
import { flushRedis, flushUnbooked, leavePostgres, loseNats, loseRedis } from "./lost-stores.ts";
import { loseRelay } from "./lost-relay.ts";
import { pauseService } from "./pauses.ts";
import { fillDisk, fillStream } from "./full.ts";
import { type Round, type Scenario, type ScenarioOptions, startScene } from "./scenario.ts";
import { runSessions } from "./sessions.ts";
import { startTaskScene } from "./task-scenario.ts";
import { runTasks } from "./tasks.ts";
import type { Verdict } from "./verdict.ts";
import type { World } from "../e2e/world.ts";

export type PhaseOptions = {
  seed: number;
  kills: number;
  /** No round of kills begins after so many. */
  minutes: number;
  /** See KillPlan. */
  point: string;
  callers: number;
  postgresAwayMs: number;
};

/** The system of a phase. */
type Stage = AsyncDisposable & {
  linesOf: World["linesOf"];
  run: (options: PhaseOptions) => Promise<Verdict[]>;
};

/** A part of the run, on a system of its own. */
export type Phase = {
  name: string;
  says: string;
  start: (options: ScenarioOptions) => Promise<Stage>;
};

/** The system that most phases have: what is run on it, and its start. */
function onCalls(run: (scenario: Scenario, options: PhaseOptions) => Promise<Verdict[]>): Phase["start"] {
  return async (sceneOptions) => stageOf(await startScene(sceneOptions), run);
}

function stageOf<S extends AsyncDisposable & Pick<Scenario, "world">>(
  scenario: S,
  run: (scenario: S, options: PhaseOptions) => Promise<Verdict[]>,
): Stage {
  return {
    linesOf: scenario.world.linesOf,
    run: (options) => run(scenario, options),
    [Symbol.asyncDispose]: () => scenario[Symbol.asyncDispose](),
  };
}

type Harm = (scenario: Scenario, round: Round, options: PhaseOptions) => Promise<void>;

const timesEach = 2;

/** A phase that does the same harm twice, each time in a round of its own. */
function phaseOf(name: string, says: string, { kills = 0, harm }: { kills?: number; harm: Harm }): Phase {
  return {
    name,
    says,
    start: onCalls(async (scenario, options) => {
      const verdicts: Verdict[] = [];
      for (let time = 1; time <= timesEach; time += 1) {
        const { report, ends } = await scenario.round((round) => harm(scenario, round, options));
        scenario.say(`  ${ends}`);
        verdicts.push({ name: `${name}, ${time}`, kills, faults: 1, report });
      }
      return verdicts;
    }),
  };
}

export const phases: readonly Phase[] = [
  {
    name: "kills",
    says: "kill -9 of every process in turn, at random moments and at every fault point",
    start: onCalls(runKills),
  },
  {
    name: "tasks",
    says: "kill -9 of everything that video tasks need, under two replicas, at random moments and at fault points",
    start: async (options) => stageOf(await startTaskScene(options), runTasks),
  },
  { name: "links", says: "every link cut, frozen and slowed down", start: onCalls((scenario) => runCuts(scenario)) },
  {
    name: "sessions",
    says: "processes killed and paused, links cut and frozen, while realtime sessions speak",
    start: onCalls((scenario) => runSessions(scenario)),
  },
  phaseOf("flushall", "Redis is emptied while it runs", { harm: flushRedis }),
  phaseOf("flushall-unbooked", "Redis is emptied while only the stream knows what is spent", {
    kills: 1,
    harm: flushUnbooked,
  }),
  phaseOf("redis-lost", "Redis is killed and comes back without its data", { kills: 1, harm: loseRedis }),
  phaseOf("nats-lost", "NATS is killed and its store deleted", { kills: 1, harm: loseNats }),
  phaseOf("postgres-away", "PostgreSQL is killed and stays away", { kills: 1, harm: leavePostgres }),
  phaseOf("auth-quota-paused", "auth-quota stands still for 30 s", {
    harm: (scenario, round) => pauseService(scenario, round, { name: "auth-quota", forMs: 30_000 }),
  }),
  phaseOf("billing-paused", "billing stands still for 30 s", {
    harm: (scenario, round) => pauseService(scenario, round, { name: "billing", forMs: 30_000 }),
  }),
  phaseOf("relay-paused", "the relay stands still for 20 s", {
    harm: (scenario, round) => pauseService(scenario, round, { name: "relay", forMs: 20_000 }),
  }),
  phaseOf("relay-lost", "a relay is killed, and its disk is gone, too", { kills: 1, harm: loseRelay }),
  phaseOf("disk-full", "the relay's disk takes no more records", { harm: fillDisk }),
  phaseOf("stream-full", "the usage stream takes no more events", { harm: fillStream }),
];
