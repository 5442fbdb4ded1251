import { setTimeout as pause } from "node:timers/promises";
import { deflateRawSync } from "node:zlib";
import type { Attack, Strike, Victim } from "./attack.ts";
import { filled, mebibyte } from "./filled.ts";
import { frame, headOf, opcodes, openSocket, writeAll, type Opened } from "./socket-client.ts";

// Attacks by WebSockets; see services/relay/README.md#responses-over-websocket.

const most = 4 * mebibyte;
const turnStart = '{"type":"response.create","model":"passed"';
const asText = (payload: Buffer): Buffer => frame({ opcode: opcodes.text, payload });
const turn = (fields: string): Buffer => asText(Buffer.from(`${turnStart}${fields}}`));
const large = (start: string, unit: string, end: string, bytes = most - 64): Buffer =>
  filled({ start: turnStart + start, unit, end }, bytes);

const openMany = (victim: Victim, count: number, fields?: string): Promise<Opened[]> =>
  Promise.all(Array.from({ length: count }, () => openSocket(victim, fields)));

const told = (words: string[]): string => [...new Set(words)].toSorted().join(", ");

function leave(opened: Opened[]): void {
  for (const { socket } of opened) socket.destroy();
}

/** How the relay ends a socket; "open" where it does not for a while. */
const endOf = ({ ended }: Opened, waitMs = 5_000): Promise<string> =>
  Promise.race([ended, pause(waitMs, "open", { ref: false })]);

/** Each of some sockets writes the same, and waits for how the relay takes it. */
const writes = (count: number, pieces: () => Iterable<Buffer>, fields?: string) => (): Strike => {
  const made = [...pieces()];
  return async (victim) => {
    const opened = await openMany(victim, count, fields);
    const ends = opened.map(async (one) => {
      await writeAll(one.socket, made);
      return endOf(one);
    });
    const words = await Promise.all(ends);
    leave(opened);
    return told(words);
  };
};

/** The same again and again while there is somebody to hear it, and nothing is read. */
const floods = (count: number, piece: () => Buffer, times: number) => (): Strike => {
  const made = piece();
  return async (victim) => {
    const opened = await openMany(victim, count);
    for (const { socket } of opened) socket.pause();
    await Promise.all(
      opened.map(({ socket }) => Promise.race([writeAll(socket, Array<Buffer>(times).fill(made)), pause(5_000)])),
    );
    leave(opened);
    return "left";
  };
};

const drops = 300;
const dripMs = 5;

const dripping: Strike = async (victim) => {
  const opened = await openMany(victim, 400);
  const start = headOf({ opcode: opcodes.text }, most - 1);
  for (const { socket } of opened) socket.write(start);
  for (let drop = 0; drop < drops; drop += 1) {
    for (const { socket } of opened) socket.write(" ");
    await pause(dripMs);
  }
  leave(opened);
  return "left";
};

const crowd: Strike = async (victim) => {
  const opened = await openMany(victim, 1_800);
  const statuses = opened.map(({ status }) => status);
  leave(opened);
  return told(statuses);
};

/** Handshakes whose end never comes, and sockets on which nothing does. */
const halfOpen: Strike = async (victim) => {
  const opened = await openMany(victim, 300);
  const half = await Promise.all(
    opened.map(async () => {
      const { socket } = await openSocket({ ...victim, secret: "wrong" });
      socket.write("GET /v1/responses HTTP/1.1\r\nConnection: Upgrade\r\n");
      return socket;
    }),
  );
  await pause(drops * dripMs);
  for (const socket of half) socket.destroy();
  leave(opened);
  return "left";
};

function* fragments(count: number, bytes: number): Generator<Buffer> {
  yield frame({ opcode: opcodes.text, payload: Buffer.alloc(bytes, " "), isLast: false });
  const more = frame({ opcode: opcodes.more, payload: Buffer.alloc(bytes, " "), isLast: false });
  for (let at = 0; at < count; at += 1_000) yield Buffer.concat(Array<Buffer>(1_000).fill(more));
}

/** The id of the next response that a socket is told of; undefined when none comes. */
const nextId = ({ socket }: Opened): Promise<string | undefined> =>
  new Promise((resolve) => {
    const read = (chunk: Buffer): void => {
      const id = /resp_[0-9a-f]+/.exec(chunk.toString("latin1"))?.[0];
      if (id !== undefined) end(id);
    };
    const end = (id?: string): void => {
      socket.off("data", read);
      resolve(id);
    };
    socket.on("data", read);
    void pause(3_000, undefined, { ref: false }).then(() => end());
  });

/** Keeps 15 MB as a conversation, for nothing, and has it put together again and again for turns that are refused. */
const longMemory: Strike = async (victim) => {
  const opened = await openMany(victim, 4);
  const ends = opened.map(async (one) => {
    let id: string | undefined;
    for (let times = 0; times < 4; times += 1) {
      const before = id === undefined ? "" : `,"previous_response_id":"${id}"`;
      const told = nextId(one);
      await writeAll(one.socket, [asText(large(`${before},"generate":false,"input":"`, "x", '"}'))]);
      id = await told;
    }
    const again = turn(`,"previous_response_id":"${id}","input":"y","n":"none"`);
    await writeAll(one.socket, Array<Buffer>(20).fill(again));
  });
  await Promise.all(ends);
  const words = await Promise.all(opened.map((one) => endOf(one, 3_000)));
  leave(opened);
  return told(words);
};

const lanes = (victim: Victim, model: string): Promise<Opened[]> =>
  openMany(victim, 60).then(async (opened) => {
    const turns = Array.from({ length: 40 }, (_, at) =>
      asText(Buffer.from(`{"type":"response.create","model":"${model}","stream_id":"s${at}","input":"x"}`)),
    );
    await Promise.all(opened.map(({ socket }) => writeAll(socket, turns)));
    return opened;
  });

const manyTurns: Strike = async (victim) => {
  const opened = await lanes(victim, "passed");
  await pause(1_000);
  leave(opened);
  return "left";
};

const poorTurns: Strike = async (victim) => {
  const opened = await lanes({ ...victim, secret: victim.poorSecret }, "passed");
  const words = await Promise.all(opened.map((one) => endOf(one, 3_000)));
  leave(opened);
  return told(words);
};

/** Long streams are asked for, and nothing of them is read. */
const unread: Strike = async (victim) => {
  const opened = await openMany(victim, 50);
  const asking = asText(Buffer.from('{"type":"response.create","model":"deltas","input":"x"}'));
  for (const { socket } of opened) socket.pause().write(asking);
  await pause(drops * dripMs);
  leave(opened);
  return "left";
};

/** Sessions whose provider says large things, of which nothing is read. */
const unreadSessions: Strike = async (victim) => {
  const opened = await Promise.all(
    Array.from({ length: 120 }, () => openSocket(victim, "", "/v1/realtime?model=talk")),
  );
  for (const { socket } of opened) socket.pause();
  await pause(10_000);
  const statuses = opened.map(({ status }) => status);
  leave(opened);
  return told(statuses);
};

const inflating = "Sec-WebSocket-Extensions: permessage-deflate\r\n";
const bomb = (): Buffer => {
  const payload = deflateRawSync(large(',"input":"', "x", '"}', 256 * mebibyte), { level: 1 });
  return frame({ opcode: opcodes.text, payload, isCompressed: true });
};

const ping = frame({ opcode: opcodes.ping, payload: Buffer.alloc(125) });
const emptyPing = frame({ opcode: opcodes.ping, payload: Buffer.alloc(0) });

export const sockets: Attack[] = [
  { name: "1,800 sockets of one account", prepare: () => crowd },
  { name: "300 sockets on which nothing comes, 300 heads without end", prepare: () => halfOpen },
  { name: "400 frames of 4 MB that drip", prepare: () => dripping },
  { name: "frames of 4 MB, ten sockets", prepare: writes(10, () => [asText(large(',"input":"', "x", '"}'))]) },
  {
    name: "frames of 4 MB of another dialect",
    prepare: writes(4, () => [
      asText(Buffer.from(large(',"input":"', "x", '"}').toString("latin1").replace('"passed"', '"to-gemini"'))),
    ]),
  },
  { name: "frames of 4 MB of values", prepare: writes(4, () => [asText(large(',"x":[', "0,", "0]}"))]) },
  { name: "frames of 490,000 values", prepare: writes(8, () => [asText(large(',"x":[', "0,", "0]}", 980_000))]) },
  { name: "frames of 4 MB of levels", prepare: writes(4, () => [asText(large(',"x":', "[", "]}"))]) },
  { name: "frames of 4 MB of escapes", prepare: writes(4, () => [asText(large(',"input":"', "\\u0041", '"}'))]) },
  {
    name: "frames of 4 MB that are no UTF-8",
    prepare: writes(4, () => [asText(large(',"input":"', "é", '"}').fill(0xff, most - 128))]),
  },
  {
    name: "binary frames of 4 MB",
    prepare: writes(4, () => [frame({ opcode: opcodes.binary, payload: large(',"input":"', "x", '"}') })]),
  },
  { name: "frames of 5 MB", prepare: writes(10, () => [asText(large(',"input":"', "x", '"}', 5 * mebibyte))]) },
  { name: "fragments of nothing without end", prepare: writes(20, () => fragments(200_000, 0)) },
  { name: "fragments of a byte without end", prepare: writes(20, () => fragments(200_000, 1)) },
  { name: "fragments of 2 KB without end", prepare: writes(10, () => fragments(20_000, 2_048)) },
  { name: "floods of pings, unread", prepare: floods(20, () => Buffer.concat(Array<Buffer>(500).fill(ping)), 2_000) },
  {
    name: "floods of empty pings, unread",
    prepare: floods(20, () => Buffer.concat(Array<Buffer>(10_000).fill(emptyPing)), 2_000),
  },
  { name: "floods of frames that are no turn", prepare: floods(20, () => asText(Buffer.from("{}")), 100_000) },
  { name: "compressed frames of 256 MB", prepare: writes(10, () => [bomb()], inflating) },
  { name: "conversations of 15 MB by sockets, continued", prepare: () => longMemory },
  { name: "2,400 turns at once", prepare: () => manyTurns },
  { name: "2,400 turns without money", prepare: () => poorTurns },
  { name: "50 readers of sockets who read nothing", prepare: () => unread },
  { name: "120 sessions of frames of 15 MB that nobody reads", prepare: () => unreadSessions },
];
