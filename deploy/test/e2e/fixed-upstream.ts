import { createServer } from "node:http";
import { freePort } from "#shared/testing/free-port.ts";

/**
 * `status`: 200 unless it says otherwise, which comes as JSON. `isSwapped`: the other one than is asked for.
 * `streamType`: what the head of a stream says that it is.
 */
export type FixedAnswer = { whole: Buffer; stream: Buffer; status?: number; isSwapped?: true; streamType?: string };

/**
 * An upstream that answers with these very bytes, by the path, or the first name in it, and by whether the request is
 * for a stream.
 */
export async function startFixedUpstream(answers: Record<string, FixedAnswer>) {
  const server = createServer((asked, answer) => {
    const pieces: Buffer[] = [];
    asked.on("data", (piece: Buffer) => pieces.push(piece));
    asked.on("end", () => {
      const url = asked.url ?? "";
      const fixed = answers[url] ?? answers[url.split("/")[1] ?? ""];
      const { status = fixed ? 200 : 404 } = fixed ?? {};
      const isAsked = /"stream":true/.test(Buffer.concat(pieces).toString()) || url.includes("alt=sse");
      const isStream = status === 200 && isAsked !== (fixed?.isSwapped ?? false);
      const { streamType = "text/event-stream" } = fixed ?? {};
      answer.writeHead(status, { "content-type": isStream ? streamType : "application/json" });
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
