import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { test } from "node:test";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { createLog } from "#shared/process/log.ts";
import { until } from "#shared/testing/until.ts";
import type { Decide, BatchDecision } from "./decide.ts";
import { createSessions } from "./session.ts";
import { emptyOperation, type SessionResponse } from "./session-wire.ts";

/** Sessions whose decisions wait for the test, and one stream of a relay. */
function openSession() {
  const lines: string[] = [];
  const log = createLog("auth-quota", "info", { write: (line: string) => void lines.push(line) });
  const deciding: PromiseWithResolvers<BatchDecision>[] = [];
  const decide: Decide = () => {
    const decision = Promise.withResolvers<BatchDecision>();
    deciding.push(decision);
    return decision.promise;
  };
  const sessions = createSessions(decide, () => undefined, log);
  const answers: SessionResponse[] = [];
  const stream = Object.assign(new EventEmitter(), {
    writable: true,
    writableNeedDrain: false,
    isPaused: () => false,
    write: (answer: SessionResponse) => answers.push(answer),
    end: () => {
      stream.writable = false;
      setImmediate(() => stream.emit("close"));
    },
  });
  (sessions.handler as unknown as (one: typeof stream) => void)(stream);
  const send = (batch: number): boolean =>
    stream.emit("data", { relaySession: "relay_1", batch, operations: [emptyOperation("lookup")] });
  return { sessions, deciding, answers, stream, send, logText: () => lines.join("") };
}

const yes: BatchDecision = { results: [{ verdict: Verdict.OK }], generation: "g", recalledLeases: [], timeMs: 0 };

test("a stop tells each relay at once, decides what it still sends, and is over when the relay has left", async () => {
  const { sessions, deciding, answers, stream, send } = openSession();
  const ended = sessions.end(600_000);
  assert.deepEqual(
    answers.map(({ batch, isStopping }) => [batch, isStopping]),
    [[0, true]],
  );
  send(1);
  deciding[0]?.resolve(yes);
  await until("it is answered", () => answers.length === 2);
  assert.deepEqual([answers[1]?.batch, answers[1]?.isStopping, answers[1]?.results], [1, true, yes.results]);
  stream.emit("end");
  await ended;
});

test("a relay that stays is left in the end: what is in hand is answered, nothing more is taken", async () => {
  const { sessions, deciding, answers, stream, send, logText } = openSession();
  send(1);
  const ended = sessions.end(2);
  await until("it is left", () => logText().includes("relays found no other replica"));
  send(2);
  assert.equal(deciding.length, 1);
  assert.equal(stream.writable, true);
  deciding[0]?.resolve(yes);
  await ended;
  await until("the stream is ended", () => !stream.writable);
  assert.deepEqual(
    answers.map(({ batch }) => batch),
    [0, 1],
  );
});
