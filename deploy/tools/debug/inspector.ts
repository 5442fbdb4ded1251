import { setTimeout as wait } from "node:timers/promises";
import type { Inspector } from "#shared/process/inspector.ts";

/** A connection to the inspector of another process. */
export type RemoteInspector = AsyncDisposable &
  Inspector & { on: (method: string, take: (params: Record<string, unknown>) => void) => void };

type Message = {
  id?: number;
  method?: string;
  params?: Record<string, unknown>;
  result?: Record<string, unknown>;
  error?: { message: string };
};

const host = "127.0.0.1";
const openMs = 5_000;
const retryMs = 50;

/**
 * Has a process of this machine or container open its inspector, by SIGUSR1, and connects to it. Only who may send that
 * process a signal can do this. Disposal disconnects, and has the process close its inspector again. Throws an Error
 * when there is no such process, it may not be sent signals, or its inspector does not open.
 */
export async function openInspector(pid: number, port: number): Promise<RemoteInspector> {
  process.kill(pid, "SIGUSR1");
  const socket = new WebSocket(await addressOf(port));
  const opened = Promise.withResolvers<void>();
  const waiting = new Map<number, PromiseWithResolvers<Record<string, unknown>>>();
  const listeners = new Map<string, (params: Record<string, unknown>) => void>();
  const fail = (): void => {
    const gone = new Error(`the inspector of process ${pid} has gone`);
    opened.reject(gone);
    for (const { reject } of waiting.values()) reject(gone);
  };
  socket.addEventListener("open", () => opened.resolve());
  socket.addEventListener("error", fail);
  socket.addEventListener("close", fail);
  socket.addEventListener("message", ({ data }) => {
    const { id, method, params = {}, result = {}, error } = JSON.parse(String(data)) as Message;
    if (method !== undefined) listeners.get(method)?.(params);
    const asked = id === undefined ? undefined : waiting.get(id);
    if (error) asked?.reject(new Error(error.message));
    else asked?.resolve(result);
  });
  await opened.promise;
  let lastId = 0;
  const send: RemoteInspector["send"] = (method, params = {}) => {
    const asked = Promise.withResolvers<Record<string, unknown>>();
    waiting.set((lastId += 1), asked);
    socket.send(JSON.stringify({ id: lastId, method, params }));
    return asked.promise;
  };
  return {
    send,
    on: (method, take) => void listeners.set(method, take),
    [Symbol.asyncDispose]: async () => {
      await send("Runtime.evaluate", { expression: closing });
      waiting.clear();
      socket.close();
    },
  };
}

// inspector.close() stops the process until nobody is connected: so it comes when this end has gone.
const closing = 'setTimeout(() => process.getBuiltinModule("node:inspector").close(), 100); undefined';

async function addressOf(port: number): Promise<string> {
  const until = performance.now() + openMs;
  for (;;) {
    try {
      const response = await fetch(`http://${host}:${port}/json/list`);
      const [target] = (await response.json()) as { webSocketDebuggerUrl: string }[];
      if (target) return target.webSocketDebuggerUrl;
    } catch (error) {
      if (performance.now() > until) throw new Error(`no inspector answers at ${host}:${port}`, { cause: error });
    }
    await wait(retryMs);
  }
}
