/**
 * Bytes that a process still needs of its heap: what is left after a full collection of its garbage. The process must
 * have been started with NODE_OPTIONS=--inspect=127.0.0.1:PORT.
 */
export async function neededHeapBytes(inspectorPort: number): Promise<number> {
  const list = await fetch(`http://127.0.0.1:${inspectorPort}/json/list`);
  const [target] = (await list.json()) as { webSocketDebuggerUrl: string }[];
  const socket = new WebSocket(target?.webSocketDebuggerUrl ?? "");
  try {
    const ask = (id: number, method: string): Promise<Record<string, unknown>> =>
      new Promise((resolve, reject) => {
        socket.addEventListener("error", () => reject(new Error(`the inspector of port ${inspectorPort} broke`)));
        socket.addEventListener("message", ({ data }) => {
          const reply = JSON.parse(String(data)) as { id?: number; result: Record<string, unknown> };
          if (reply.id === id) resolve(reply.result);
        });
        socket.send(JSON.stringify({ id, method }));
      });
    await new Promise((resolve, reject) => {
      socket.addEventListener("open", resolve);
      socket.addEventListener("error", reject);
    });
    // Twice, because what the first round finalizes is free only in the second.
    await ask(1, "HeapProfiler.collectGarbage");
    await ask(2, "HeapProfiler.collectGarbage");
    const { usedSize } = await ask(3, "Runtime.getHeapUsage");
    if (typeof usedSize !== "number") throw new Error("the inspector told no size of the heap");
    return usedSize;
  } finally {
    socket.close();
  }
}
