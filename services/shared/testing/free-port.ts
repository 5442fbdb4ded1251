import { randomInt } from "node:crypto";
import { createServer, type Server } from "node:net";

// Below the range that systems hand out to outgoing connections, so that a port stays free between a kill and a
// restart. Each process has blocks of its own, so that nobody else takes the port of a service that is down.
const lowestPort = 20_000;
const blockSize = 100;
const blocks = 120;

let given: Promise<number[]> = Promise.resolve([]);

/** A loopback port that nobody listens on at this moment, and that no other process is given while this one lives. */
export async function freePort(): Promise<number> {
  const ports = given.then(async (left) => (left.length > 0 ? left : await claimBlock()));
  const taking = ports.then(takeFree);
  given = taking.then(({ left }) => left);
  const { port } = await taking;
  return port ?? freePort();
}

async function takeFree(ports: number[]): Promise<{ port: number | undefined; left: number[] }> {
  for (const [index, port] of ports.entries())
    if (await isPortFree(port)) return { port, left: ports.slice(index + 1) };
  return { port: undefined, left: [] };
}

/** Takes a block for as long as this process lives: by its first port, which one process at a time can listen on. */
async function claimBlock(): Promise<number[]> {
  const start = randomInt(blocks);
  for (let offset = 0; offset < blocks; offset += 1) {
    const first = lowestPort + ((start + offset) % blocks) * blockSize;
    const holder = await listenOn(first);
    if (!holder) continue;
    holder.on("connection", (socket) => socket.destroy()).unref();
    return Array.from({ length: blockSize - 1 }, (_, index) => first + 1 + index);
  }
  throw new Error(`found no free block of ports from ${lowestPort} to ${lowestPort + blocks * blockSize}`);
}

/** Whether a listener on 127.0.0.1 could bind the port now. */
export async function isPortFree(port: number): Promise<boolean> {
  const server = await listenOn(port);
  if (!server) return false;
  await new Promise((resolve) => server.close(resolve));
  return true;
}

function listenOn(port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => resolve(server));
  });
}
