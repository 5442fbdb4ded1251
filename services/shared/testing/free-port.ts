import { randomInt } from "node:crypto";
import { createServer } from "node:net";

// Below the range that systems hand out to outgoing connections, so that a port stays free between a kill and a
// restart. Each process begins in a block of its own, so that test files side by side do not race for one port.
const lowestPort = 20_000;
const blockSize = 200;
const blocks = 60;
const alreadyGiven = new Set<number>();

/** A loopback port that nobody listens on at this moment; whoever binds it must be ready to lose the race. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 300; attempt += 1) {
    const block = attempt < 100 ? process.pid % blocks : randomInt(blocks);
    const port = lowestPort + block * blockSize + randomInt(blockSize);
    if (alreadyGiven.has(port) || !(await isPortFree(port))) continue;
    alreadyGiven.add(port);
    return port;
  }
  throw new Error(`found no free port from ${lowestPort} to ${lowestPort + blocks * blockSize}`);
}

/** Whether a listener on 127.0.0.1 could bind the port now. */
export function isPortFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => server.close(() => resolve(true)));
  });
}
