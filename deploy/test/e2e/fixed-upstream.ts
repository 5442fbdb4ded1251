import { createServer } from "node:http";
import { freePort } from "#shared/testing/free-port.ts";

export type FixedAnswer = { whole: Buffer; stream: Buffer };

/** An upstream that answers with these very bytes, by the path and by whether the request is for a stream. */
export async function startFixedUpstream(answers: Record<string, FixedAnswer>) {
  const server = createServer((asked, answer) => {
    const pieces: Buffer[] = [];
    asked.on("data", (piece: Buffer) => pieces.push(piece));
    asked.on("end", () => {
      const isStream = /"stream":true/.test(Buffer.concat(pieces).toString());
      const fixed = answers[asked.url ?? ""];
      answer.writeHead(fixed ? 200 : 404, { "content-type": isStream ? "text/event-stream" : "application/json" });
      answer.end(isStream ? fixed?.stream : fixed?.whole);
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
