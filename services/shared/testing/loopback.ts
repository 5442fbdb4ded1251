import { connect } from "node:net";

/**
 * Sends `text` to a loopback port and returns what has come back once `isComplete` says so. Rejects when the
 * connection fails, ends early, or stays silent for a second.
 */
export function askLoopback(port: number, text: string, isComplete: (answer: string) => boolean): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = connect({ port, host: "127.0.0.1" });
    const fail = (reason: string): void => {
      socket.destroy();
      reject(new Error(reason));
    };
    socket.setTimeout(1_000, () => fail("no answer within a second"));
    socket.on("error", reject);
    socket.on("close", () => fail("closed without an answer"));
    socket.on("data", (chunk) => {
      answer += chunk.toString();
      if (!isComplete(answer)) return;
      resolve(answer);
      socket.destroy();
    });
    if (text !== "") socket.write(text);
  });
}
