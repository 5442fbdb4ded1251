import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { WebSocket, type ClientOptions } from "ws";
import type { Json } from "./ask.ts";

/** What came of a turn: its events up to the one that ends it. */
export type Turn = { events: Json[]; last: Json; rid: string; response: Json; text: string };

export type SocketCaller = {
  webSocket: WebSocket;
  /** The request id under which the socket was opened. */
  rid: string;
  /** All events, those of turns among them. */
  events: Json[];
  send: (event: unknown) => void;
  /** Sends a turn and waits for its end; of a stream where it names one. */
  turn: (fields: Json) => Promise<Turn>;
  /** Waits for the end of the next turn of a stream. */
  ended: (streamId?: string) => Promise<Turn>;
  /** The code with which the socket was closed. */
  closed: Promise<number>;
};

const finals = new Set(["response.completed", "response.incomplete", "response.failed", "error"]);

const urlOf = (relayUrl: string): string => `${relayUrl.replace(/^http/, "ws")}/v1/responses`;

/** The text frames of a turn, as a client puts them together. */
function readTurn(events: Json[]): Turn {
  const [first = {}] = events;
  const last = events.at(-1) ?? {};
  const headers = (first["headers"] ?? last["headers"] ?? {}) as Json;
  const deltas = events.filter(({ type }) => type === "response.output_text.delta").map(({ delta }) => String(delta));
  const response = (last["response"] ?? {}) as Json;
  return { events, last, rid: (headers["x-request-id"] as string | undefined) ?? "", response, text: deltas.join("") };
}

/** Opens a socket, as any client does; rejects with the status where it is refused. */
export async function openSocket(relayUrl: string, secret: string, options: ClientOptions = {}): Promise<SocketCaller> {
  const headers = { authorization: `Bearer ${secret}`, ...options.headers };
  const webSocket = new WebSocket(urlOf(relayUrl), { ...options, headers });
  const events: Json[] = [];
  const heard = new Set<() => void>();
  let rid = "";
  webSocket.on("upgrade", (response) => (rid = String(response.headers["x-request-id"])));
  webSocket.on("message", (data) => {
    events.push(JSON.parse((data as Buffer).toString()) as Json);
    for (const listener of heard) listener();
  });
  const closed = new Promise<number>((resolve) => webSocket.once("close", resolve));
  const opened = Promise.withResolvers<void>();
  webSocket.once("open", opened.resolve);
  webSocket.once("error", opened.reject);
  await opened.promise;
  webSocket.on("error", () => undefined);
  const taken = new Set<Json>();
  const ended = async (streamId?: string): Promise<Turn> => {
    const mine: Json[] = [];
    const { promise, resolve, reject } = Promise.withResolvers<Turn>();
    const look = (): void => {
      for (const event of events) {
        if (taken.has(event) || event["stream_id"] !== streamId) continue;
        taken.add(event);
        mine.push(event);
        if (finals.has(String(event["type"]))) return resolve(readTurn(mine));
      }
    };
    const onClose = (code: number): void => reject(new Error(`closed with ${code} after ${JSON.stringify(mine)}`));
    heard.add(look);
    webSocket.once("close", onClose);
    look();
    try {
      return await promise;
    } finally {
      heard.delete(look);
      webSocket.off("close", onClose);
    }
  };
  const send = (event: unknown): void => webSocket.send(JSON.stringify(event));
  const turn = (fields: Json): Promise<Turn> => {
    send({ type: "response.create", ...fields });
    return ended(fields["stream_id"] as string | undefined);
  };
  return { webSocket, rid, events, send, turn, ended, closed };
}

/** What a refused upgrade is answered. */
export async function refusedSocket(
  relayUrl: string,
  headers: Record<string, string>,
): Promise<{ status: number; body: Json; headers: Json }> {
  const webSocket = new WebSocket(urlOf(relayUrl), { headers });
  webSocket.on("error", () => undefined);
  const [, response] = (await once(webSocket, "unexpected-response")) as [unknown, IncomingMessage];
  const pieces: Buffer[] = [];
  for await (const piece of response) pieces.push(piece as Buffer);
  const body = JSON.parse(Buffer.concat(pieces).toString()) as Json;
  return { status: response.statusCode ?? 0, body, headers: response.headers as Json };
}
