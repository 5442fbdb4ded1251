import { createServer } from "node:http";
import { freePort } from "#shared/testing/free-port.ts";

/** An answer in a provider's own words, whole and as the data of a stream's events; `isCut`: its end never comes. */
export type Shape = { whole: object; events: object[]; isDoneTold?: boolean; isCut?: boolean };

/** An upstream that answers each model with its shape, and breaks the connection behind one that is cut. */
export async function startShapedUpstream(shapes: Record<string, Shape>) {
  const server = createServer((asked, answer) => {
    const pieces: Buffer[] = [];
    asked.on("data", (piece: Buffer) => pieces.push(piece));
    asked.on("end", () => {
      const { model, stream } = JSON.parse(Buffer.concat(pieces).toString()) as { model: string; stream?: boolean };
      const shape = shapes[model];
      if (!shape) return void answer.writeHead(404).end();
      if (!stream) {
        answer.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(shape.whole));
        return;
      }
      answer.writeHead(200, { "content-type": "text/event-stream" });
      for (const event of shape.events) {
        const type = (event as { type?: string }).type;
        answer.write(`${type === undefined ? "" : `event: ${type}\n`}data: ${JSON.stringify(event)}\n\n`);
      }
      if (shape.isDoneTold) answer.write("data: [DONE]\n\n");
      if (shape.isCut) setImmediate(() => answer.destroy());
      else answer.end();
    });
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const close = (): void => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${port}`, close };
}
