import { connect } from "node:net";
import { text } from "node:stream/consumers";

/** What the relay under test tells of itself since it was last asked. */
export type Figures = {
  pid: number;
  p99Ms: number;
  maxMs: number;
  /** The same of the time for which the loop's own thread had a core. */
  workP99Ms: number;
  workMaxMs: number;
  /** What JavaScript holds on to, in its heap and outside of it; at rest without garbage. */
  usedMib: number;
  /** What the system counts for it, and the most of it. */
  rssMib: number;
  peakMib: number;
};

/** Takes the figures, and begins new ones; at rest, behind a collection of garbage. Rejects when the relay has gone. */
export async function takeFigures(socketPath: string, when: "now" | "rest" = "now"): Promise<Figures> {
  const socket = connect(socketPath);
  socket.write(when);
  return JSON.parse(await text(socket)) as Figures;
}
