import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { until } from "#shared/testing/until.ts";
import { startRedisCluster } from "../../services/auth-quota/testing/redis-cluster.ts";
import { repository, run } from "../tools/checks/run.ts";

const page = readFileSync(join(repository, "deploy/operations/shards.md"), "utf8");
const [, commands = ""] = /^```sh\n(MASTERS=[^]*?)^```/m.exec(page) ?? [];

test("the page's commands place the slots of shards on the masters that they name", { timeout: 120_000 }, async () => {
  await using cluster = await startRedisCluster();
  const nodes = [cluster.master, ...cluster.others];
  const masters = nodes.map(({ url }) => new URL(url).host);
  const text = commands.replace(/^MASTERS=.*$/m, `MASTERS="${masters.join(" ")}"`);
  const tell = async (more = "") => {
    const { code, output, errors } = await run("sh", ["-c", `${text}\n${more}`], repository);
    assert.equal(errors, "");
    const lines = output.split("\n").map((line) => line.split(" "));
    return { code, output, shards: lines.filter(([, slot]) => /^\d+$/.test(slot ?? "")) };
  };
  const { shards } = await tell();
  assert.deepEqual(
    shards.map(([shard]) => shard),
    ["0", "1", "2", "3", "4", "5"],
  );
  const wanted = shards.map(([shard = "", slot = ""], at) => [shard, slot, masters[at % 3] ?? ""]);
  assert.notDeepEqual(shards, wanted);
  const moves = shards.flatMap(([, slot, from], at) =>
    from === wanted[at]?.[2] ? [] : [`move ${slot} ${from} ${wanted[at]?.[2]}`],
  );
  await tell(moves.join("\n"));
  assert.deepEqual((await tell()).shards, wanted);
  const moved = wanted.find(([, , master], at) => master !== shards[at]?.[2]);
  assert.ok(moved);
  // All nodes know, the replica too.
  const [shard, slot, holder = ""] = moved;
  const port = new URL(`redis://${holder}`).port;
  for (const node of [...nodes, cluster.replica]) {
    await until("the node has heard of it", async () => {
      const ranges = await node.admin.cluster("SLOTS");
      const range = ranges.find(([from, to]) => from <= Number(slot) && Number(slot) <= to);
      return String(range?.[2]?.[1]) === port;
    });
  }
  const owner = nodes.find(({ url }) => new URL(url).port === port);
  await owner?.admin.set(`{auth-quota:1.${shard}}:x`, "1");
  const other = masters.find((host) => host !== holder);
  const refused = await tell(`move ${slot} ${holder} ${other}`);
  assert.match(refused.output, new RegExp(`${slot} is in use`));
  assert.deepEqual((await tell()).shards, wanted);
});
