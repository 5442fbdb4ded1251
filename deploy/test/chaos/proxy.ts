import { once } from "node:events";
import { createServer, connect, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { freePort } from "#shared/testing/free-port.ts";

/** A TCP proxy on the loopback that can do to a connection what a network does. */
export type Proxy = AsyncDisposable & {
  port: number;
  /** Names the port on the loopback that connections lead to; those that come before are refused. */
  leadTo: (port: number) => void;
  /** Resets every connection, and each that is opened until it is healed. */
  cut: () => void;
  /** From now on no byte passes and no end of a connection is told; connections can still be opened. */
  freeze: () => void;
  /** Everything passes `delayMs` later: each piece waits by itself, so that the rate falls, too. */
  delay: (delayMs: number) => void;
  /** Lets everything pass again, what was kept back first. */
  heal: () => void;
  /** Connections that are open. */
  connections: () => number;
  /** Connections that were ever opened: whether anybody goes this way at all. */
  opened: () => number;
};

type State = {
  target: number | undefined;
  isCut: boolean;
  delayMs: number;
  /** Pending while frozen. */
  passage: PromiseWithResolvers<void>;
  sockets: Set<Socket>;
  opened: number;
};

const host = "127.0.0.1";

/** Starts a proxy on a free port. */
export async function startProxy(): Promise<Proxy> {
  const state: State = {
    target: undefined,
    isCut: false,
    delayMs: 0,
    passage: Promise.withResolvers(),
    sockets: new Set(),
    opened: 0,
  };
  state.passage.resolve();
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (inner) => join(state, inner));
  const port = await freePort();
  server.listen({ port, host });
  await once(server, "listening");
  return {
    port,
    leadTo: (target) => (state.target = target),
    cut: () => {
      state.isCut = true;
      for (const socket of state.sockets) socket.resetAndDestroy();
    },
    freeze: () => (state.passage = Promise.withResolvers()),
    delay: (delayMs) => (state.delayMs = delayMs),
    heal: () => {
      state.isCut = false;
      state.delayMs = 0;
      state.passage.resolve();
    },
    connections: () => state.sockets.size / 2,
    opened: () => state.opened,
    [Symbol.asyncDispose]: async () => {
      state.passage.resolve();
      for (const socket of state.sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

function join(state: State, inner: Socket): void {
  inner.on("error", () => undefined);
  if (state.target === undefined || state.isCut) return void inner.resetAndDestroy();
  state.opened += 1;
  const outer = connect({ port: state.target, host, allowHalfOpen: true, noDelay: true });
  for (const [from, to] of [
    [inner, outer],
    [outer, inner],
  ] as const) {
    state.sockets.add(from);
    from.once("close", () => state.sockets.delete(from));
    void carry(from, to, state);
  }
}

/** Carries what comes from one side to the other, and then how it ended. Never rejects. */
async function carry(from: Socket, to: Socket, state: State): Promise<void> {
  try {
    for await (const chunk of from as AsyncIterable<Buffer>) {
      await state.passage.promise;
      if (state.delayMs > 0) await pause(state.delayMs);
      if (!to.write(chunk)) await drained(to);
    }
    await state.passage.promise;
    to.end();
  } catch {
    await state.passage.promise;
    to.resetAndDestroy();
  }
}

/** Rejects when the socket has failed. */
async function drained(socket: Socket): Promise<void> {
  const waiting = new AbortController();
  const { signal } = waiting;
  try {
    await Promise.race([once(socket, "drain", { signal }), once(socket, "close", { signal })]);
  } finally {
    waiting.abort();
  }
}
