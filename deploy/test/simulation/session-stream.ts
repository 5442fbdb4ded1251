import { EventEmitter } from "node:events";
import type { Client, ServerDuplexStream } from "@grpc/grpc-js";
import {
  sessionMethod,
  type SessionResponse,
  type SessionRequest,
} from "../../../services/auth-quota/session/session-wire.ts";
import { enter, isOver, type Process } from "./clock.ts";
import { asking, createPipe, later, step, type Network, type Node } from "./network.ts";

/** What serves the streams of relays in an auth-quota process. */
export type AuthQuotaNode = Node & {
  serve: ((stream: ServerDuplexStream<SessionRequest, SessionResponse>) => void) | undefined;
};

/** A stream while it is open. */
export type Line = {
  relay: string;
  authQuota: string;
  isOpen: boolean;
  /** Ends it for both sides as a lost connection does: what is on its way arrives nowhere. */
  break: () => void;
};

export type Lines = {
  /** The channel of one relay process, in which each stream goes to one of the places. */
  channelOf: (relay: Node) => Client;
  open: Set<Line>;
  breakWhere: (isHit: (line: Line) => boolean) => void;
};

/** A connection that says nothing for so long is given up (gRPC keepalive: ping after 20 s, 5 s for its answer). */
export const keepaliveMs = 25_000;

/** How one side of a stream turns what it writes into bytes, and bytes into what it reads. */
type Codec = { encode: (message: never) => Buffer; decode: (bytes: Buffer) => unknown };

/** How auth-quota does. */
const serverCodec: Codec = { encode: sessionMethod.responseSerialize, decode: sessionMethod.requestDeserialize };

export function createLines(network: Network, places: readonly AuthQuotaNode[]): Lines {
  const open = new Set<Line>();
  const server = serverCodec;
  const openLine = (relay: Node, client: Codec): EventEmitter => {
    const place = network.random.pick(places);
    return connect({ network, open, relay, place, client, server });
  };
  const channelOf = (relay: Node) => ({
    makeBidiStreamRequest: (_path: string, encode: Codec["encode"], decode: Codec["decode"]) =>
      openLine(relay, { encode, decode }),
  });
  return {
    open,
    channelOf: (relay) => channelOf(relay) as unknown as Client,
    breakWhere: (isHit) => {
      for (const line of open) if (isHit(line)) line.break();
    },
  };
}

type ConnectionContext = {
  network: Network;
  open: Set<Line>;
  relay: Node;
  place: AuthQuotaNode;
  client: Codec;
  server: Codec;
};

/** One end of a stream: what is written at it arrives at the other, in order. */
class End extends EventEmitter {
  writable = true;
  writableNeedDrain = false;
  write: (message: unknown) => boolean = () => true;
  end: () => void = () => undefined;
  cancel: () => void = () => undefined;
  pause = (): this => this;
  resume = (): this => this;
  isPaused = (): boolean => false;
}

function connect({ network, open, relay, place, ...codecs }: ConnectionContext): End {
  const client = new End();
  const server = new End();
  const clientProcess = asking();
  const serverProcess = place.process;
  const line: Line = { relay: relay.name, authQuota: place.name, isOpen: true, break: () => undefined };
  const closeAt = (end: End, process: Process, error?: Error): void =>
    enter(process, () => {
      end.writable = false;
      if (error) end.emit("error", error);
      else end.emit("end");
      end.emit("close");
    });
  const finish = (error?: Error): void => {
    if (!line.isOpen) return;
    line.isOpen = false;
    open.delete(line);
    later(() => closeAt(client, clientProcess, error), network.delayMs());
    later(() => closeAt(server, serverProcess, error), network.delayMs());
  };
  line.break = () => finish(new Error("14 UNAVAILABLE: the connection was lost"));
  client.on("error", () => undefined);
  server.on("error", () => line.break());
  // Both sides may have the other's error raised on them: gRPC does so for a status that is not OK.
  const wayUp = { encode: codecs.client.encode, decode: codecs.server.decode };
  const wayDown = { encode: codecs.server.encode, decode: codecs.client.decode };
  client.write = way({ network, line, from: clientProcess, to: serverProcess, end: server, ...wayUp });
  server.write = way({ network, line, from: serverProcess, to: clientProcess, end: client, ...wayDown });
  client.cancel = () => finish();
  client.end = () => finish();
  server.end = () => later(() => finish(), network.weather.typicalMs);
  open.add(line);
  later(() => {
    if (!line.isOpen) return;
    const { serve } = place;
    if (isOver(serverProcess) || !serve || network.isCut(relay.name, place.name)) return line.break();
    enter(serverProcess, () => serve(server as unknown as Parameters<typeof serve>[0]));
  }, 0);
  return client;
}

type Direction = Codec & { network: Network; line: Line; from: Process; to: Process; end: End };

/** What one end writes is raised at the other as data. No message is lost alone: the connection breaks with it. */
function way({ network, line, from, to, end, encode, decode }: Direction): (message: unknown) => boolean {
  const send = createPipe(network, line.relay, line.authQuota);
  return (message) => {
    if (!step(from) || !line.isOpen) return true;
    if (network.isLost()) line.break();
    else {
      const bytes = encode(message as never);
      send(() => line.isOpen && enter(to, () => void end.emit("data", decode(bytes))));
    }
    return true;
  };
}
