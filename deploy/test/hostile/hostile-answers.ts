import { filled, mebibyte } from "./filled.ts";

const lineEnd = "\r\n";
const head = (type: string, length?: number): string =>
  [
    "HTTP/1.1 200 OK",
    `Content-Type: ${type}`,
    ...(length === undefined ? ["Connection: close"] : [`Content-Length: ${length}`]),
  ].join(lineEnd) +
  lineEnd +
  lineEnd;

const whole = (body: Buffer, type = "application/json"): Buffer =>
  Buffer.concat([Buffer.from(head(type, body.length)), body]);
const streamed = (body: Buffer): Buffer => Buffer.concat([Buffer.from(head("text/event-stream")), body]);

const usage = '"usage":{"prompt_tokens":5,"completion_tokens":5,"total_tokens":10}';
const chatStart =
  '{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":' +
  '{"role":"assistant","content":"';
const chatEnd = `"},"finish_reason":"stop"}],${usage}}`;
const chatOf = (bytes: number): Buffer => filled({ start: chatStart, unit: "x", end: chatEnd }, bytes);
const chunkStart =
  'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"';
const chunkEnd = '"},"finish_reason":null}]}\n\n';
const streamEnd =
  `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0` +
  `,"delta":{},"finish_reason":"stop"}],${usage}}\n\ndata: [DONE]\n\n`;
const chunkOf = (bytes: number): Buffer => filled({ start: chunkStart, unit: "x", end: chunkEnd + streamEnd }, bytes);

function vectors(): Buffer {
  const numbers = Array.from({ length: 1_536 }, (_, at) => (at % 997) / 997).join(",");
  const data = Array.from(
    { length: 1_500 },
    (_, index) => `{"object":"embedding","index":${index},"embedding":[${numbers}]}`,
  );
  const told = '"usage":{"prompt_tokens":5,"total_tokens":5}';
  return Buffer.from(`{"object":"list","model":"m","data":[${data.join(",")}],${told}}`);
}

const tinyEvents = 200_000;
const earlyHeads = 20_000;
const early = `HTTP/1.1 103 Early Hints${lineEnd}Link: </a>${lineEnd}${lineEnd}`;

/** An answer as an upstream sends it, byte for byte. */
const makers: Record<string, () => Buffer> = {
  "answer-100mb": () => whole(chatOf(100 * mebibyte)),
  "answer-60mb": () => whole(chatOf(60 * mebibyte)),
  "answer-wide": () =>
    whole(filled({ start: '{"x":[', unit: "0,", end: `0],${chatStart.slice(1)}x${chatEnd}` }, 16 * mebibyte)),
  "answer-vectors": () => whole(vectors()),
  "event-12mb": () => streamed(chunkOf(12 * mebibyte)),
  "event-wide": () =>
    streamed(
      filled(
        { start: 'data: {"x":[', unit: "0,", end: `0],${chunkStart.slice(7)}x${chunkEnd}${streamEnd}` },
        12 * mebibyte,
      ),
    ),
  "event-lists": () =>
    streamed(filled({ start: 'data: {"x":[', unit: "[],", end: `0]}\n\n${streamEnd}` }, 12 * mebibyte)),
  "event-lines": () => streamed(filled({ start: "data: [", unit: "data\n", end: `]\n\n${streamEnd}` }, 12 * mebibyte)),
  "event-pieces": () => streamed(chunkOf(12 * mebibyte)),
  "event-200mb": () => streamed(chunkOf(200 * mebibyte)),
  "event-tiny": () => {
    const chunk = `${chunkStart}x${chunkEnd}`;
    return streamed(Buffer.concat([Buffer.alloc(chunk.length * tinyEvents, chunk), Buffer.from(streamEnd)]));
  },
  deltas: () => {
    const event = 'data: {"type":"response.output_text.delta","item_id":"i","output_index":0,"delta":"x"}\n\n';
    return streamed(Buffer.alloc(event.length * tinyEvents, event));
  },
  "heads-103": () => Buffer.concat([Buffer.alloc(early.length * earlyHeads, early), whole(chatOf(400))]),
  "heads-endless": () =>
    filled({ start: `HTTP/1.1 200 OK${lineEnd}`, unit: `a: b${lineEnd}`, end: lineEnd }, 64 * mebibyte),
};

/** How much of an answer is written at once. */
export const pieceBytesOf = (model: string): number => (model === "event-pieces" ? 1_400 : 256 * 1024);

export const hostileModels: readonly string[] = Object.keys(makers);

const message =
  '{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"x"}]' +
  ',"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":5}}';
const candidate =
  '{"candidates":[{"content":{"role":"model","parts":[{"text":"x"}]},"finishReason":"STOP","index":0}]' +
  ',"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":5,"totalTokenCount":10},"modelVersion":' +
  '"m"}';
const response =
  `{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m","output":[` +
  `{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_tex` +
  `t","text":"x","annotations":[]}]}],"usage":{"input_tokens":5,"output_tokens":5,"total_tokens":10` +
  `,"input_tokens_details":{"cached_tokens":0},"output_tokens_details":{"reasoning_tokens":0}}}`;
const embedding =
  '{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[0.5]}]' +
  ',"usage":{"prompt_tokens":5,"total_tokens":5}}';

const embeddings = (count: number): string =>
  `{"embeddings":[${Array.from({ length: count }, () => '{"values":[0.5]}').join(",")}]}`;

/** A plain answer by the path. */
function plain(path: string): Buffer {
  if (path.includes("messages")) return whole(Buffer.from(message));
  if (path.includes("EmbedContents")) return whole(Buffer.from(embeddings(100_000)));
  if (path.includes("generateContent")) return whole(Buffer.from(candidate));
  if (path.includes("responses")) return whole(Buffer.from(response));
  if (path.includes("embeddings")) return whole(Buffer.from(embedding));
  if (path.includes("speech")) return whole(Buffer.alloc(1_000), "audio/mpeg");
  if (path.includes("transcriptions"))
    return whole(Buffer.from('{"text":"x","usage":{"type":"duration","seconds":1}}'));
  return whole(chatOf(400));
}

/** A frame of a WebSocket as a server sends it. */
function textFrame(payload: Buffer): Buffer {
  const head = Buffer.alloc(10);
  head.writeUInt16BE(0x81_7f);
  head.writeBigUInt64BE(BigInt(payload.length), 2);
  return Buffer.concat([head, payload]);
}

let frames: Buffer | undefined;

/** Two events of a session, each as large as one may be. */
export function socketFrames(): Buffer {
  frames ??= Buffer.concat(
    Array<Buffer>(2).fill(
      textFrame(filled({ start: '{"type":"conversation.item.retrieved","x":"', unit: "x", end: '"}' }, 15 * mebibyte)),
    ),
  );
  return frames;
}

const made = new Map<string, Buffer>();

/** The answer of a model, made once; a plain one of any other model. */
export function answerOf(path: string, model: string): Buffer {
  const maker = makers[model];
  if (!maker) return plain(path);
  const bytes = made.get(model) ?? maker();
  made.set(model, bytes);
  return bytes;
}
