import { connect, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import type { Attack, Victim } from "./attack.ts";

const connections = 200;
const dripMs = 5;
const drops = 300;

function openTo({ relayUrl }: Victim): Socket {
  const { hostname, port } = new URL(relayUrl);
  return connect(Number(port), hostname).on("error", () => undefined);
}

const headOf = ({ secret }: Victim, length: number): string =>
  [
    "POST /v1/chat/completions HTTP/1.1",
    "Host: relay",
    `Authorization: Bearer ${secret}`,
    "Content-Type: application/json",
    `Content-Length: ${length}`,
    "",
    "",
  ].join("\r\n");

/** Large bodies are announced, and come byte by byte. */
export const drips: Attack = {
  name: "200 bodies of 100 MB that drip",
  prepare: () => async (victim) => {
    const sockets = Array.from({ length: connections }, () => openTo(victim));
    for (const socket of sockets) socket.write(headOf(victim, 100_000_000));
    for (let drop = 0; drop < drops; drop += 1) {
      for (const socket of sockets) socket.write(" ");
      await pause(dripMs);
    }
    for (const socket of sockets) socket.destroy();
    return "left";
  },
};

/** Long streams are asked for, and nothing of them is read. */
export const slowReaders: Attack = {
  name: "50 readers of streams who read nothing",
  prepare: () => async (victim) => {
    const body = '{"model":"event-tiny","stream":true,"messages":[{"role":"user","content":"x"}]}';
    const sockets = Array.from({ length: connections / 4 }, () => openTo(victim).pause());
    for (const socket of sockets) socket.write(headOf(victim, body.length) + body);
    await pause(dripMs * drops);
    for (const socket of sockets) socket.destroy();
    return "left";
  },
};

const comingMs = 10_000;
// They come slower, because they are read on the way.
const eventsMs = 20_000;

/** Streams of large events are asked for, all at once, and nothing of them is read. */
export const unreadEvents: Attack = {
  name: "120 streams of events of 12 MB that nobody reads",
  prepare: () => async (victim) => {
    const body = '{"model":"event-12mb","stream":true,"messages":[{"role":"user","content":"x"}]}';
    const sockets = Array.from({ length: 120 }, () => openTo(victim).pause());
    for (const socket of sockets) socket.write(headOf(victim, body.length) + body);
    await pause(eventsMs);
    for (const socket of sockets) socket.destroy();
    return "left";
  },
};

/** Large answers are asked for, all at once, and nothing of them is read. */
export const unreadAnswers: Attack = {
  name: "40 answers of 60 MB that nobody reads",
  prepare: () => async (victim) => {
    const body = '{"model":"answer-60mb","messages":[{"role":"user","content":"x"}]}';
    const sockets = Array.from({ length: connections / 5 }, () => openTo(victim).pause());
    for (const socket of sockets) socket.write(headOf(victim, body.length) + body);
    await pause(comingMs);
    for (const socket of sockets) socket.destroy();
    return "left";
  },
};

/** Writes the same on each of some connections for a while, as fast as it is taken; what is answered is thrown away. */
const floods = (
  name: string,
  makePiece: (victim: Victim) => Buffer,
  makeStart?: (victim: Victim) => string,
): Attack => ({
  name,
  prepare: () => async (victim) => {
    const piece = makePiece(victim);
    const sockets = Array.from({ length: floodConnections }, () => openTo(victim).resume());
    for (const socket of sockets) {
      if (makeStart) socket.write(makeStart(victim));
      const write = (): void => {
        while (!socket.destroyed && socket.write(piece));
      };
      socket.on("drain", write);
      write();
    }
    await pause(dripMs * drops);
    for (const socket of sockets) socket.destroy();
    return "left";
  },
});

const floodConnections = 20;
const pieceBytes = 65_536;
const repeated = (text: string): Buffer => Buffer.from(text.repeat(Math.ceil(pieceBytes / text.length)));

const chunkedHead = (victim: Victim): string =>
  headOf(victim, 0).replace("Content-Length: 0", "Transfer-Encoding: chunked");

export const floodsOfRequests: Attack[] = [
  floods("pipelined requests of nobody", () => repeated("GET /v1/models HTTP/1.1\r\nHost: relay\r\n\r\n")),
  floods("pipelined requests of a key", ({ secret }) =>
    repeated(`GET /v1/models HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer ${secret}\r\n\r\n`),
  ),
  floods("pipelined requests of nowhere", () => repeated("GET /x HTTP/1.1\r\nHost: relay\r\n\r\n")),
  floods("bodies in chunks of a byte", () => repeated("1\r\n \r\n"), chunkedHead),
  floods("chunks with extensions", () => repeated(`1;${"a=b;".repeat(2_000)}\r\n \r\n`), chunkedHead),
];
