import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { WebSocketServer } from "ws";
import { announce } from "../proxy-process.ts";

// A provider of responses, over HTTP and over sockets, that says as many words as it is asked for. Prints its port.

const promptPattern = /words:(\d+)/g;
const ids = { item_id: "msg_1", output_index: 0, content_index: 0 };
const answers = new Map<number, string[]>();

/** The events of an answer, as JSON, but for what names it. */
function eventsOf(words: number): string[] {
  const known = answers.get(words);
  if (known) return known;
  const item = { id: "msg_1", type: "message", role: "assistant", status: "completed" };
  const output = [{ ...item, content: [{ type: "output_text", text: "word ".repeat(words), annotations: [] }] }];
  const response = { id: "resp_ID", object: "response", model: "bench", status: "in_progress", output: [] };
  const usage = { input_tokens: 20, output_tokens: words, total_tokens: 20 + words };
  const delta = { type: "response.output_text.delta", ...ids, delta: "word ", logprobs: [] };
  const events = [
    { type: "response.created", response },
    { type: "response.output_item.added", output_index: 0, item: { ...item, content: [] } },
    { type: "response.content_part.added", ...ids, part: { type: "output_text", text: "", annotations: [] } },
    ...Array.from({ length: words }, () => delta),
    { type: "response.output_item.done", output_index: 0, item: output[0] },
    { type: "response.completed", response: { ...response, status: "completed", output, usage } },
  ].map((event, number) => JSON.stringify({ ...event, sequence_number: number }));
  answers.set(words, events);
  return events;
}

let served = 0;

/** Each answer has an id of its own, as it can be continued. */
function answerTo(body: string): string[] {
  served += 1;
  const [words = "1"] = [...body.matchAll(promptPattern)].map(([, count]) => count).slice(-1);
  return eventsOf(Number(words)).map((event) => event.replace("resp_ID", `resp_${served}`));
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let body = "";
  for await (const piece of request) body += (piece as Buffer).toString();
  response.writeHead(200, { "content-type": "text/event-stream" });
  // One write an event, as a model speaks.
  for (const event of answerTo(body)) {
    response.write(`event: ${/"type":"([^"]+)"/.exec(event)?.[1]}\ndata: ${event}\n\n`);
  }
  response.end();
}

const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false });
const server = createServer((request, response) => void serve(request, response));
server.on("upgrade", (request, socket, head) => {
  sockets.handleUpgrade(request, socket, head, (webSocket) => {
    webSocket.on("error", () => undefined);
    webSocket.on("message", (data) => {
      for (const event of answerTo((data as Buffer).toString())) webSocket.send(event);
    });
  });
});
announce(server);
