import { Agent, request } from "node:http";
import { once } from "node:events";
import { WebSocket } from "ws";

/** Somebody who asks for answers of so many words, one after the other; resolves at the end of each. */
export type Caller = { ask: (words: number) => Promise<void>; end: () => void };

export type CallerPlan = { port: number; headers: Record<string, string>; model: string };

const inputOf = (words: number): string => `words:${words}`;
const streamEnd = /"type":\s*"response\.(completed|failed|incomplete)"/;

/** Over HTTP, on a connection that is kept. */
export function callByHttp({ port, headers, model }: CallerPlan): Caller {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const ask = (words: number): Promise<void> =>
    new Promise((resolve, reject) => {
      const body = JSON.stringify({ model, input: inputOf(words), stream: true, store: false });
      const length = Buffer.byteLength(body);
      const sent = { ...headers, "content-type": "application/json", "content-length": length };
      const asked = request({ port, host: "127.0.0.1", path: "/v1/responses", method: "POST", agent, headers: sent });
      asked.on("response", (answer) => {
        let tail = "";
        answer.on("data", (piece: Buffer) => (tail = (tail + piece.toString("latin1")).slice(-20_000)));
        answer.on("error", reject);
        answer.on("end", () => (streamEnd.test(tail) ? resolve() : reject(new Error(tail.slice(0, 300)))));
      });
      asked.on("error", reject).end(body);
    });
  return { ask, end: () => agent.destroy() };
}

/** On a socket, each turn a conversation of its own. */
export async function callBySocket({ port, headers, model }: CallerPlan): Promise<Caller> {
  const webSocket = new WebSocket(`ws://127.0.0.1:${port}/v1/responses`, { headers, perMessageDeflate: false });
  let turn: PromiseWithResolvers<void> | undefined;
  webSocket.on("error", (error) => turn?.reject(error));
  await once(webSocket, "open");
  webSocket.on("message", (data) => {
    const text = (data as Buffer).toString("latin1");
    if (text.includes('"type":"error"')) turn?.reject(new Error(text.slice(0, 300)));
    else if (streamEnd.test(text.slice(0, 400))) turn?.resolve();
  });
  webSocket.on("close", (code) => turn?.reject(new Error(`closed with ${code}`)));
  const ask = (words: number): Promise<void> => {
    turn = Promise.withResolvers<void>();
    webSocket.send(JSON.stringify({ type: "response.create", model, input: inputOf(words), store: false }));
    return turn.promise;
  };
  return { ask, end: () => webSocket.terminate() };
}
