import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { DeliverPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { usageStream, usageSubject } from "#shared/stores/usage-stream.ts";
import { findProgram } from "#shared/testing/binaries.ts";
import { run } from "../../tools/checks/run.ts";
import { encodeGolden, goldenBatches } from "./golden-events.ts";
import { pythonExample, typescriptExample } from "./examples.ts";
import { proveConsumer } from "./prove-consumer.ts";
import { examples, publishAll, readConfig, startNatsWithUsers } from "./stage.ts";

test("the TypeScript consumer counts each event once: twice on the stream, killed, and read again", async () => {
  await proveConsumer(typescriptExample);
});

const python = await pythonExample();
const withoutPython = "missing" in python && `${python.missing}: the Python consumer is not run`;

test(
  "the Python consumer counts each event once: twice on the stream, killed, and read again",
  { skip: withoutPython },
  async () => {
    assert.ok("command" in python);
    await proveConsumer(python);
  },
);

test("a billing team reads its consumer and replays, and may do nothing else", async (t) => {
  await using nats = await startNatsWithUsers();
  const { manager, services, team } = nats;

  await t.test("the server takes the consumer's configuration as it is", async () => {
    const config = await readConfig("consumer.json");
    const made = await manager.consumers.add(usageStream, config);
    const kept = Object.fromEntries(Object.keys(config).map((name) => [name, made.config[name as "durable_name"]]));
    assert.deepEqual(kept, config);
  });

  await publishAll(services, "golden", goldenBatches.map(encodeGolden));
  const own = await jetstreamManager(team, { checkAPI: false });

  await t.test("reading the stream again, from a time and from a sequence", async () => {
    const spans = [
      { deliver_policy: DeliverPolicy.StartTime, opt_start_time: new Date(Date.now() - 60_000).toISOString() },
      { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: 3 },
    ];
    const counts = [];
    for (const span of spans) {
      const { opt_start_time: _past, ...config } = await readConfig("replay.json");
      await own.consumers.add(usageStream, { ...config, ...span });
      const consumer = await jetstream(team).consumers.get(usageStream, "billing-team-replay");
      let count = 0;
      for await (const message of await consumer.fetch({ max_messages: 100, expires: 1_000 })) {
        count += 1;
        message.ack();
        if (message.info.pending === 0) break;
      }
      counts.push(count);
      await consumer.delete();
    }
    assert.deepEqual(counts, [goldenBatches.length, goldenBatches.length - 2]);
  });

  await t.test("a look at the stream", async () => {
    assert.equal((await own.streams.info(usageStream)).state.messages, goldenBatches.length);
  });

  const refused = [
    usageSubject,
    "usage.v1.anything",
    `$JS.API.CONSUMER.MSG.NEXT.${usageStream}.billing`,
    `$JS.ACK.${usageStream}.billing.1.1.1.1.0`,
    `$JS.API.CONSUMER.DURABLE.CREATE.${usageStream}.another`,
    `$JS.API.CONSUMER.CREATE.${usageStream}.another.${usageSubject}`,
    `$JS.API.CONSUMER.DELETE.${usageStream}.billing`,
    `$JS.API.CONSUMER.DELETE.${usageStream}.billing-team`,
    `$JS.API.STREAM.PURGE.${usageStream}`,
    `$JS.API.STREAM.UPDATE.${usageStream}`,
    `$JS.API.STREAM.DELETE.${usageStream}`,
    `$JS.API.STREAM.MSG.DELETE.${usageStream}`,
  ];
  for (const subject of refused) {
    await t.test(`refused: ${subject}`, async () => {
      await assert.rejects(team.request(subject, "", { timeout: 5_000 }), /permissions violation/i);
    });
  }

  await t.test("refused: what others read", async () => {
    const errors: unknown[] = [];
    const subscription = team.subscribe(">", { callback: (error) => void errors.push(error) });
    await subscription.closed;
    assert.match(String(errors[0]), /permissions violation/i);
  });

  await t.test("a consumer of its own that sends back into the stream is refused by the server", async () => {
    const pushed = { name: "billing-team-replay", filter_subject: usageSubject, deliver_subject: usageSubject };
    await assert.rejects(own.consumers.add(usageStream, pushed), /cycle/);
  });

  const { messages } = (await manager.streams.info(usageStream)).state;
  assert.equal(messages, goldenBatches.length, "nothing came and nothing went");
});

const parsed: [string, string[], string][] = [
  ["gofmt", ["-e", "-l", "main.go"], "go"],
  ["python3", ["-c", "import ast, sys; ast.parse(open('consume.py').read())"], "python"],
];

for (const [program, words, folder] of parsed) {
  const skip = findProgram(program) ? false : `${program} is not on this machine`;
  test(`the example in ${folder} is well formed; \`npm run test:examples\` runs it`, { skip }, async () => {
    const { code, output, errors } = await run(program, words, join(examples, folder));
    assert.deepEqual([code, output, errors], [0, "", ""]);
  });
}
