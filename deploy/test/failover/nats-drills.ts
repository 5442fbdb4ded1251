import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fundsStream, usageStream, usageSubject } from "#shared/stores/usage-stream.ts";
import { until } from "#shared/testing/until.ts";
import type { Round, Scenario } from "../chaos/scenario.ts";
import type { Drill } from "./drill.ts";
import { manage, type NatsNodes, startNatsNodes } from "./nats-nodes.ts";

const dollar = 1_000_000_000n;

type Harm = (nodes: NatsNodes, scenario: Scenario, round: Round) => Promise<void>;

const nodesDrill = (name: string, says: string, harm: Harm): Drill => ({
  name,
  says,
  stage: async (resources) => {
    const nodes = resources.use(await startNatsNodes());
    return {
      scene: { given: { nats: nodes.url }, direct: ["NATS_URL"], billing: { USAGE_STREAM_REPLICAS: "3" } },
      harm: async (scenario, round) => {
        round.isUnnoticed = true;
        await round.more(40);
        await harm(nodes, scenario, round);
        await round.more(40);
      },
    };
  },
});

/** Puts a copy of the disk in the place of what NATS has written since. */
async function comeBackOld(scenario: Scenario, round: Round): Promise<void> {
  const { nats } = scenario.world.stack.stores.processes;
  if (!nats) throw new Error("NATS does not run here");
  const [own, copy] = [join(scenario.folder, "nats"), join(scenario.folder, "nats-copy")];
  round.isUnnoticed = true;
  await round.more(40);
  // A whole copy is one of a server that is not writing.
  await nats.kill("SIGTERM");
  await cp(own, copy, { recursive: true });
  await nats.restart();
  await round.more(80);
  await giveMoney(round);
  await nats.kill();
  await rm(own, { recursive: true });
  await cp(copy, own, { recursive: true });
  await nats.restart();
  await round.more(80);
}

async function giveMoney(round: Round): Promise<void> {
  const [rich] = round.customers;
  if (rich) await round.credit(rich, 5n * dollar);
}

/** Deletes both streams while the services run: sequences begin at 1 again. */
async function deleteStreams(scenario: Scenario, round: Round): Promise<void> {
  round.isUnnoticed = true;
  const { nats } = scenario.world.stack.stores.urls;
  await round.more(40);
  for (const stream of [usageStream, fundsStream]) await manage(nats, (manager) => manager.streams.delete(stream));
  await giveMoney(round);
  await round.more(80);
  const isTaken = async (): Promise<boolean> =>
    (await manage(nats, (manager) => manager.streams.info(fundsStream))).state.messages > 0;
  await until("the line by hand is on the new stream", isTaken, 30_000);
}

/** Removes what billing has not read yet: only auth-quota and the spools know of it then. */
async function purgeUnread(scenario: Scenario, round: Round): Promise<void> {
  const { nats } = scenario.world.stack.stores.urls;
  const { billing } = scenario.world.stack.services;
  round.isUnnoticed = true;
  await round.more(40);
  await billing.kill();
  await round.more(60);
  await manage(nats, (manager) => manager.streams.purge(usageStream));
  await billing.restart();
  await round.more(80);
}

/** Puts all that the stream holds on it a second time, as messages that its window for duplicates does not know. */
async function publishAgain(scenario: Scenario, round: Round): Promise<void> {
  const { nats } = scenario.world.stack.stores.urls;
  round.isUnnoticed = true;
  await round.more(80);
  await manage(nats, async (manager) => {
    const { state } = await manager.streams.info(usageStream);
    for (let seq = state.first_seq; seq <= state.last_seq; seq += 1) {
      const message = await manager.streams.getMessage(usageStream, { seq });
      if (message) await manager.jetstream().publish(usageSubject, message.data);
    }
  });
  await round.more(40);
}

export const natsDrills: readonly Drill[] = [
  nodesDrill(
    "nats-leader-killed",
    "the leader of the usage stream is killed",
    async ({ leaderOf }, _scenario, round) => {
      const leader = await leaderOf(usageStream);
      await leader.kill();
      await round.more(60);
      await leader.restart();
    },
  ),
  nodesDrill("nats-leader-stopped", "the leader stands still for 20 s", async ({ leaderOf }) => {
    const leader = await leaderOf(usageStream);
    process.kill(leader.pid, "SIGSTOP");
    await pause(20_000);
    process.kill(leader.pid, "SIGCONT");
  }),
  nodesDrill("nats-two-away", "two of three servers are away for 15 s", async ({ nodes }) => {
    const away = nodes.slice(0, 2);
    for (const node of away) await node.kill();
    await pause(15_000);
    await Promise.all(away.map((node) => node.restart()));
  }),
  nodesDrill(
    "nats-leader-and-billing",
    "the leader and billing are killed together",
    async ({ leaderOf }, { world }) => {
      const leader = await leaderOf(usageStream);
      const { billing } = world.stack.services;
      await Promise.all([leader.kill(), billing.kill()]);
      await pause(3_000);
      await Promise.all([leader.restart(), billing.restart()]);
    },
  ),
  {
    name: "nats-old-disk",
    says: "NATS comes back with an older copy of its disk",
    stage: async () => ({ harm: comeBackOld }),
  },
  {
    name: "nats-streams-deleted",
    says: "both streams are deleted, and their sequences begin at 1 again",
    stage: async () => ({ harm: deleteStreams }),
  },
  {
    name: "nats-purged",
    says: "the stream is purged of what billing has not read",
    stage: async () => ({ harm: purgeUnread }),
  },
  {
    name: "nats-twice",
    says: "all events come a second time, as other messages",
    stage: async () => ({ harm: publishAgain }),
  },
];
