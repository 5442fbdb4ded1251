import { connect, type Socket } from "node:net";
import type { Victim } from "./attack.ts";

// What `ws` would refuse to send: the frames of an attacker, byte for byte.

export const opcodes = { more: 0, text: 1, binary: 2, close: 8, ping: 9 } as const;

export type Frame = { opcode: number; payload: Buffer; isLast?: boolean; isCompressed?: boolean };

const maskedBit = 0x80;
const noMask = Buffer.alloc(4);

function lengthOf(bytes: number): Buffer {
  if (bytes < 126) return Buffer.from([maskedBit | bytes]);
  const isLong = bytes > 0xff_ff;
  const field = Buffer.alloc(isLong ? 9 : 3, maskedBit | (isLong ? 127 : 126));
  if (isLong) field.writeBigUInt64BE(BigInt(bytes), 1);
  else field.writeUInt16BE(bytes, 1);
  return field;
}

/** The head of a frame of so many bytes. */
export function headOf({ opcode, isLast = true, isCompressed = false }: Omit<Frame, "payload">, bytes: number): Buffer {
  const first = (isLast ? 0x80 : 0) | (isCompressed ? 0x40 : 0) | opcode;
  return Buffer.concat([Buffer.from([first]), lengthOf(bytes), noMask]);
}

/** A whole frame, masked with zeros. */
export const frame = ({ payload, ...head }: Frame): Buffer => Buffer.concat([headOf(head, payload.length), payload]);

/** A socket of an attacker: what the handshake was answered, and how it ended. */
export type Opened = { socket: Socket; status: string; ended: Promise<string> };

const closeOpcode = 0x88;

/** The code of the close frame at the end of what came; "cut" without one. */
function codeIn(last: Buffer): string {
  const at = last.lastIndexOf(closeOpcode);
  return at !== -1 && last[at + 1] === 2 && at + 4 <= last.length ? String(last.readUInt16BE(at + 2)) : "cut";
}

/** Makes the handshake; gives the status that it was answered. What comes behind is not kept. */
export async function openSocket({ relayUrl, secret }: Victim, fields = "", path = "/v1/responses"): Promise<Opened> {
  const { hostname, port } = new URL(relayUrl);
  const socket = connect(Number(port), hostname).on("error", () => undefined);
  let last: Buffer = Buffer.alloc(0);
  const ended = new Promise<string>((resolve) => socket.once("close", () => resolve(codeIn(last))));
  socket.write(
    `GET ${path} HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer ${secret}\r\nConnection: Upgrade\r\n` +
      `Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${"A".repeat(22)}==\r\n${fields}\r\n`,
  );
  const first = new Promise<string>((resolve) => socket.once("data", (chunk) => resolve(chunk.toString("latin1"))));
  const status = (await Promise.race([first, ended])).split(" ")[1];
  socket.on("data", (chunk: Buffer) => (last = Buffer.concat([last.subarray(-8), chunk.subarray(-8)])));
  return { socket, status: status ?? "cut", ended };
}

/** Writes as fast as it is taken; ends when all is written or the socket has closed. */
export async function writeAll(socket: Socket, pieces: Iterable<Buffer>): Promise<void> {
  for (const piece of pieces) {
    if (socket.destroyed) return;
    if (socket.write(piece)) continue;
    await new Promise<void>((resolve) => {
      const goOn = (): void => {
        socket.off("drain", goOn).off("close", goOn);
        resolve();
      };
      socket.on("drain", goOn).on("close", goOn);
    });
  }
}
