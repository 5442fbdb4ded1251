import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { after } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import { WebSocket, type ClientOptions } from "ws";
import { UsageRecordedSchema, type UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import { behaviourText, type Behaviour } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { startSocketRelay } from "./socket-relay.ts";
import type { ScriptedQuota } from "./fakes.ts";

export type Json = Record<string, unknown>;
export type SocketRelay = Awaited<ReturnType<typeof startSocketRelay>>;

export const key = { authorization: "Bearer sk-right" };

export const partOf = (event: Json | undefined, name: string): Json => (event ?? {})[name] as Json;

export async function start(...setup: Parameters<typeof startSocketRelay>): Promise<SocketRelay> {
  const relay = await startSocketRelay(...setup);
  after(() => relay[Symbol.asyncDispose]());
  return relay;
}

type Opening = { model?: string; query?: string; protocols?: string[]; options?: ClientOptions };

export async function open({ port }: SocketRelay, { model = "talk", query, protocols, options }: Opening = {}) {
  const url = `ws://127.0.0.1:${port}/v1/realtime?${query ?? `model=${model}`}`;
  const webSocket = new WebSocket(url, protocols ?? [], { headers: key, ...options });
  const events: Json[] = [];
  webSocket.on("message", (data) => void events.push(JSON.parse((data as Buffer).toString()) as Json));
  const closed = new Promise<number>((resolve) => webSocket.once("close", resolve));
  await once(webSocket, "open");
  webSocket.on("error", () => undefined);
  after(() => webSocket.terminate());
  const send = (event: Json): void => webSocket.send(JSON.stringify(event));
  const find = async (type: string, count = 1): Promise<Json[]> => {
    const ofType = (): Json[] => events.filter((event) => event["type"] === type);
    await until(`${count} ${type}`, () => ofType().length >= count);
    return ofType();
  };
  const say = (text: string): void => {
    const content = [{ type: "input_text", text }];
    send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
  };
  const ask = (behaviour: Behaviour, response?: Json): void => {
    say(behaviourText(behaviour, "Hi"));
    send({ type: "response.create", ...(response && { response }) });
  };
  return { webSocket, events, closed, send, find, say, ask };
}

export async function refused(relay: SocketRelay, opening: Opening = {}): Promise<[status: number, error: Json]> {
  const url = `ws://127.0.0.1:${relay.port}/v1/realtime?${opening.query ?? `model=${opening.model ?? "talk"}`}`;
  const webSocket = new WebSocket(url, opening.protocols ?? [], { headers: key, ...opening.options });
  webSocket.on("error", () => undefined);
  const [, response] = (await once(webSocket, "unexpected-response")) as [unknown, IncomingMessage];
  const pieces: Buffer[] = [];
  for await (const piece of response) pieces.push(piece as Buffer);
  return [response.statusCode ?? 0, (JSON.parse(Buffer.concat(pieces).toString()) as { error: Json }).error];
}

type Spool = { records: Map<string, Uint8Array> };

/** What was charged, oldest first. */
export const charged = ({ relay }: SocketRelay): UsageRecorded[] =>
  [...(relay.settling.spool as unknown as Spool).records.values()].map((bytes) =>
    fromBinary(UsageRecordedSchema, bytes),
  );
export const quotaOf = ({ relay }: SocketRelay): ScriptedQuota => relay.settling.quota as ScriptedQuota;
/** Calls whose money is held, and neither charged nor given back. */
export const heldOf = (relay: SocketRelay): number =>
  quotaOf(relay).of("reserve").length - quotaOf(relay).of("settle").length - quotaOf(relay).of("release").length;

/** The buckets of a record that are not 0. */
export const bucketsOf = ({ usage }: UsageRecorded): [string, unknown][] =>
  Object.entries(usage ?? {}).filter(([, count]) => typeof count === "bigint" && count > 0n);
