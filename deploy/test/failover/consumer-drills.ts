import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { usageStream } from "#shared/stores/usage-stream.ts";
import { findProgram } from "#shared/testing/binaries.ts";
import { until } from "#shared/testing/until.ts";
import type { Scenario } from "../chaos/scenario.ts";
import { goExample, pythonExample, typescriptExample } from "../usage/examples.ts";
import type { Example } from "../usage/prove-consumer.ts";
import { readConfig, startBooks, startConsumer } from "../usage/stage.ts";
import type { Drill, Staged } from "./drill.ts";
import { manage, type NatsNodes, startNatsNodes } from "./nats-nodes.ts";

const stillMs = 5_000;
const ackWaitNanos = 3_000_000_000;
const consumedMs = 120_000;

/** A billing team: its consumer on the stream, the example that reads it, and its books. */
type Team = {
  name: string;
  example: Example;
  books: Awaited<ReturnType<typeof startBooks>>;
  reader?: Awaited<ReturnType<typeof startConsumer>>;
};

/** The examples that can run here; says which cannot. */
async function findExamples(resources: AsyncDisposableStack): Promise<Record<string, Example>> {
  const missing = (what: string, why: string): object => {
    process.stdout.write(`  without the consumer in ${what}: ${why}\n`);
    return {};
  };
  const python = await pythonExample();
  const folder = await mkdtemp(join(tmpdir(), "usage-go-"));
  resources.defer(() => rm(folder, { recursive: true, force: true }));
  return {
    typescript: typescriptExample,
    ...("missing" in python ? missing("Python", python.missing) : { python }),
    ...(findProgram("go") ? { go: await goExample(folder) } : missing("Go", "go is not on this machine")),
  };
}

/** Makes a team's consumer: all of the stream is delivered to it, once more if it had one before. */
async function declareConsumer({ url }: NatsNodes, name: string): Promise<void> {
  const config = { ...(await readConfig("consumer.json")), durable_name: name, ack_wait: ackWaitNanos };
  const declare = () =>
    manage(url, async ({ consumers }) => {
      await consumers.delete(usageStream, name).catch(() => undefined);
      return consumers.add(usageStream, config);
    });
  await until("the team has a consumer", declare, consumedMs);
}

async function startReader({ nodes }: NatsNodes, team: Team): Promise<void> {
  const { name, example, books } = team;
  const own = { NATS_URL: nodes[0]?.url, DATABASE_URL: books.url, CONSUMER: name };
  team.reader = await startConsumer({ ...example, environment: { ...example.environment, ...own } });
}

async function untilAllIsRead({ url }: NatsNodes, teams: readonly Team[]): Promise<void> {
  for (const { name } of teams) {
    const isRead = async (): Promise<boolean> => {
      const { num_pending: pending, num_ack_pending: open } = await manage(url, ({ consumers }) =>
        consumers.info(usageStream, name),
      );
      return pending === 0 && open === 0;
    };
    await until(`${name} has read all`, isRead, consumedMs);
  }
}

/** What the ledger has of each account, in the words of the examples. */
async function ledgerLines({ world }: Scenario): Promise<string[]> {
  const client = new pg.Client({ connectionString: world.stack.stores.urls.postgres });
  await client.connect();
  try {
    const { rows } = await client.query<{ line: string }>(
      `SELECT format('%s: %s calls, %s nano-USD, ', account_id, count(DISTINCT rid), -sum(amount_nanos)) AS line
       FROM billing.ledger_line WHERE kind = ANY($1) GROUP BY account_id ORDER BY account_id`,
      [[LineKind.CHARGE, LineKind.PROVISIONAL_CHARGE, LineKind.FINAL_ADJUSTMENT]],
    );
    return rows.map(({ line }) => line);
  } finally {
    await client.end();
  }
}

/** Stops the teams, and compares the totals that they print, and what they buried, with the ledger. */
async function compare(nodes: NatsNodes, scenario: Scenario, teams: readonly Team[]): Promise<string[]> {
  await untilAllIsRead(nodes, teams);
  const ledger = await ledgerLines(scenario);
  const problems: string[] = ledger.length > 0 ? [] : ["the ledger is empty"];
  for (const { name, reader, books } of teams) {
    const told = await reader?.stop();
    const totals = (told?.totals ?? []).map((line) => line.replace(/\d+ provisional$/, ""));
    const wrong = ledger.filter((line) => !totals.includes(line));
    if (totals.length !== ledger.length || wrong.length > 0) {
      problems.push(`${name} counts ${totals.join("; ")}, the ledger ${ledger.join("; ")}`);
    }
    const { rowCount } = await books.pool.query("SELECT FROM dead_letter");
    if (rowCount !== 0) problems.push(`${name} buried ${rowCount} events`);
    if (told?.end !== "exit code 0") problems.push(`${name} ended with ${told?.end}: ${told?.lines.join("; ")}`);
  }
  scenario.say(`  ${teams.map(({ name }) => name).join(", ")}: totals of ${ledger.length} accounts compared`);
  return problems;
}

async function stage(resources: AsyncDisposableStack): Promise<Staged> {
  const nodes = resources.use(await startNatsNodes());
  const teams: Team[] = [];
  for (const [name, example] of Object.entries(await findExamples(resources))) {
    const team: Team = { name, example, books: resources.use(await startBooks()) };
    resources.defer(() => team.reader?.[Symbol.asyncDispose]());
    teams.push(team);
  }
  const startReaders = async (): Promise<void> => {
    for (const team of teams) await declareConsumer(nodes, team.name);
    await Promise.all(teams.map((team) => startReader(nodes, team)));
  };
  return {
    scene: { given: { nats: nodes.url }, direct: ["NATS_URL"], billing: { USAGE_STREAM_REPLICAS: "3" } },
    // That callers notice nothing is tried by the drills of NATS alone, without compilers and consumers beside them.
    harm: async (_scenario, round) => {
      await startReaders();
      await round.more(40);
      const killed = await nodes.leaderOf(usageStream);
      await killed.kill();
      await round.more(60);
      await killed.restart();
      const { pid } = await nodes.leaderOf(usageStream);
      process.kill(pid, "SIGSTOP");
      await pause(stillMs).finally(() => process.kill(pid, "SIGCONT"));
      await round.more(40);
      // In the middle of their work; then all of it is delivered once more.
      for (const { reader } of teams) await reader?.kill();
      await startReaders();
      await round.more(40);
    },
    afterwards: (scenario) => compare(nodes, scenario, teams),
  };
}

/** The billing team's consumers, in each language that this machine has. */
export const consumerDrills: readonly Drill[] = [
  {
    name: "consumers",
    says: "billing teams read while the leader is killed, the next stands still, and all is delivered once more",
    stage,
  },
];
