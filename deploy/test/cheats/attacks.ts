import { denseInputs, denseTexts } from "./texts.ts";
import { pdf, png, quietMp3, quietWav, wavFormat } from "./pictures.ts";
import type { Plan } from "./provider.ts";

/** A call, or several at once, by which somebody may get more than he pays for. */
export type Attack = {
  name: string;
  model?: "told" | "untold" | "sharing" | "caching" | "completing" | "liar" | "sound" | "searching";
  path?: string;
  body?: Record<string, unknown>;
  /** The body as it is sent, where it is none that JSON.stringify writes. */
  raw?: string;
  form?: { file: Buffer; fields: Record<string, string> };
  contentType?: string;
  plan: Plan;
  /** Calls at once. */
  calls?: number;
  creditNanos?: bigint;
  /** Hangs up when the provider's answer has stopped where its plan says. */
  hangsUp?: true;
  /** Waits for a part of the relay that is not there yet. */
  pending?: string;
};

const words = "The committee will meet again on Tuesday, and vote on it. ";
const short: Plan["answer"] = [words];
const long: Plan["answer"] = Array.from({ length: 60 }, () => words.repeat(4));
const pieces = (text: string): string[] => text.match(/[\s\S]{1,200}/g) ?? [];

const say = (text: unknown, more: object = {}) => ({ messages: [{ role: "user", content: text }], ...more });
const responses = "/v1/responses";
const messages = "/v1/messages";
const longPrompt = words.repeat(400);

const inputs: Attack[] = Object.entries(denseInputs).map(([name, make]) => ({
  name: `prompt: ${name}, no counts told`,
  model: "untold",
  body: say(make()),
  plan: { answer: short, tells: "nothing" },
}));

const outputs: Attack[] = Object.entries(denseTexts).flatMap(([name, make]) => {
  const answer = pieces(make());
  const plan: Plan = { answer, tells: "nothing" };
  return [
    { name: `answer: ${name}, no counts told`, model: "untold", body: say("Go on.", { stream: true }), plan } as const,
  ];
});

const letters = Buffer.from(words.repeat(200)).toString("base64");

const disguises: Attack[] = [
  {
    name: "text that begins like base64 media",
    model: "untold",
    body: say(letters),
    plan: { answer: short, tells: "nothing" },
  },
  {
    name: "text in a field of media",
    model: "untold",
    body: say([{ type: "image_url", image_url: { url: `data:text/plain;base64,${letters}` }, text: letters }]),
    plan: { answer: short, tells: "nothing" },
  },
  {
    name: "text behind the beginning of a picture",
    model: "untold",
    body: say([
      { type: "image_url", image_url: { url: `data:image/png;base64,${letters} ${words}` }, text: words.repeat(99) },
    ]),
    plan: { answer: short, tells: "nothing" },
  },
];

const picture = (width: number, height: number) => [
  { type: "image_url", image_url: { url: `data:image/png;base64,${png(width, height)}` } },
];
const pdfPart = (base64: string) => [
  { type: "file", file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${base64}` } },
];
const untold = (mediaTokens: number): Plan => ({ answer: short, tells: "nothing", mediaTokens });

const media: Attack[] = [
  { name: "a picture of one pixel", model: "untold", body: say(picture(1, 1)), plan: untold(85) },
  { name: "a picture of 4k in few bytes", model: "untold", body: say(picture(3_840, 2_160)), plan: untold(4_784) },
  {
    name: "100 pages of a PDF in few bytes",
    model: "untold",
    body: say(pdfPart(pdf(100, false))),
    plan: untold(440_000),
  },
  { name: "100 compressed pages", model: "untold", body: say(pdfPart(pdf(100, true))), plan: untold(440_000) },
  {
    name: "100 compressed pages on a balance for one",
    body: say(pdfPart(pdf(100, true)), { max_tokens: 20 }),
    plan: { answer: short, tells: "right", mediaTokens: 440_000 },
    creditNanos: 10_000_000n,
  },
];

const told = (more: Partial<Plan> = {}): Plan => ({ answer: short, tells: "right", ...more });
const chatStream = say("Go on.", { stream: true });
const counts: Attack[] = [
  { name: "usage told early and never again", body: chatStream, plan: { answer: long, tells: "early" } },
  {
    name: "usage told early, Messages",
    path: messages,
    body: { ...chatStream, max_tokens: 9_000 },
    plan: { answer: long, tells: "early" },
  },
  { name: "usage is missing", body: say(longPrompt), plan: { answer: long, tells: "nothing" } },
  ...(
    [
      ["negative", -5],
      ["a fraction", 0.5],
      ["a text", "12"],
    ] as const
  ).map(([what, count]): Attack => ({
    name: `usage is ${what}`,
    body: say(longPrompt),
    plan: { answer: long, tells: { input: count, output: count } },
  })),
  {
    name: "usage is 0, of a provider known for it",
    model: "liar",
    body: say(longPrompt),
    plan: { answer: long, tells: { input: 0, output: 0 } },
  },
  {
    name: "usage is 1 and 1, of a provider known for it",
    model: "liar",
    body: say(longPrompt),
    plan: { answer: long, tells: { input: 1, output: 1 } },
  },
  {
    name: "usage is huge",
    body: say(longPrompt),
    plan: { answer: long, tells: { input: 9e15, output: 9e15 } },
    creditNanos: 100_000_000_000n,
  },
];

const withCap = (attack: Attack): Attack => {
  // A small cap, so that nothing but the unseen input can be too much for the balance.
  const cap = attack.path === responses ? { max_output_tokens: 20 } : { max_tokens: 20 };
  return { ...attack, body: { ...attack.body, ...cap }, creditNanos: 10_000_000n };
};
const unseen: Attack[] = (
  [
    {
      name: "previous_response_id",
      model: "sharing",
      path: responses,
      body: { input: "Go on.", previous_response_id: "resp_1" },
      plan: told({ unseenTokens: 200_000 }),
    },
    {
      name: "conversation",
      model: "sharing",
      path: responses,
      body: { input: "Go on.", conversation: "conv_1" },
      plan: told({ unseenTokens: 200_000 }),
    },
    {
      name: "a stored prompt",
      model: "sharing",
      path: responses,
      body: { input: "Go on.", prompt: { id: "pmpt_1" } },
      plan: told({ unseenTokens: 200_000 }),
    },
    {
      name: "a file by its id",
      model: "sharing",
      body: say([{ type: "file", file: { file_id: "file-1" } }]),
      plan: told({ unseenTokens: 200_000 }),
    },
    {
      name: "a file by its address",
      path: responses,
      body: { input: [{ role: "user", content: [{ type: "input_file", file_url: "https://files.example/a.pdf" }] }] },
      plan: told({ unseenTokens: 200_000 }),
    },
    {
      name: "a picture by its address",
      body: say([{ type: "image_url", image_url: { url: "https://files.example/a.png" } }]),
      plan: told({ unseenTokens: 4_784 }),
    },
  ] satisfies Attack[]
).map(withCap);

const leaving: Attack[] = [
  {
    name: "hangs up before the first byte",
    body: say(longPrompt, { stream: true }),
    plan: told({ answer: long, stopsAt: 0 }),
    hangsUp: true,
  },
  {
    name: "hangs up behind the last wanted word",
    body: say(longPrompt, { stream: true }),
    plan: told({ answer: long, stopsAt: 50 }),
    hangsUp: true,
  },
  {
    name: "hangs up while it thinks",
    body: say(longPrompt, { stream: true }),
    plan: told({ answer: long, hiddenTokens: 4_000, stopsAt: 0 }),
    hangsUp: true,
  },
];

const grown = words.repeat(400).match(/.{1,60}/g) ?? [];
const capped = 20_000_000n;
const smallCaps = [
  ["a small cap beside a large one of another server", { max_tokens: 20, n_predict: 90_000 }],
  ["a cap of a half", { max_tokens: 0.5 }],
  ["a small cap beside a large one of thought", { max_tokens: 20, reasoning: { max_tokens: 90_000 } }],
] as const;
const many: Attack[] = [
  {
    name: "20 calls at once on a balance for one, whole, no cap",
    body: say("Go on."),
    plan: told({ answer: grown }),
    calls: 20,
    creditNanos: capped,
  },
  ...smallCaps.map(([what, fields]) => ({
    name: `20 calls at once with ${what}`,
    body: say("Go on.", fields),
    plan: told({ answer: grown }),
    calls: 20,
    creditNanos: capped,
  })),
  {
    name: "20 streams at once on a balance for one",
    body: chatStream,
    plan: told({ answer: grown }),
    calls: 20,
    creditNanos: capped,
  },
  {
    name: "a stream without a cap on a small balance",
    body: chatStream,
    plan: told({ answer: grown }),
    creditNanos: capped,
  },
  {
    name: "20 prompts of base64 at once on a balance for one",
    body: say(letters, { max_tokens: 20 }),
    plan: told(),
    calls: 20,
    creditNanos: 60_000_000n,
  },
];

const tool = (description: string) => ({
  type: "function",
  function: { name: "look", description, parameters: { type: "object", properties: {} } },
});
const tools: Attack[] = [
  {
    name: "long definitions of tools, no counts told",
    model: "untold",
    body: say("Go on.", { tools: Array.from({ length: 40 }, () => tool(words.repeat(4))) }),
    plan: { answer: short, tells: "nothing" },
  },
  {
    name: "20 searches on a small balance",
    model: "searching",
    path: responses,
    body: { input: "Go on.", max_output_tokens: 100, tools: [{ type: "web_search" }] },
    plan: told({ searches: 20 }),
    creditNanos: 40_000_000n,
  },
  {
    name: "20 allowed searches",
    model: "searching",
    path: responses,
    body: { input: "Go on.", max_output_tokens: 100, max_tool_calls: 20, tools: [{ type: "web_search" }] },
    plan: told({ searches: 20 }),
    creditNanos: 40_000_000n,
  },
];

const written = words.repeat(1_000);
const variants: Attack[] = [
  ...(["30m", "12h"] as const).map((ttl): Attack => ({
    name: `a cache written for ${ttl}, Responses`,
    model: "caching",
    path: responses,
    body: { input: written, prompt_cache_options: { ttl } },
    plan: told({ cacheWriteTtl: ttl }),
  })),
  ...(["right", "nothing"] as const).map((tells): Attack => ({
    name: tells === "right" ? "best of 20" : "best of 20, no counts told",
    model: "completing",
    path: "/v1/completions",
    body: { prompt: "Go on.", best_of: 20, max_tokens: 1_000 },
    plan: told({ answer: long, tells }),
  })),
];

const formOf = (head: string, lineEnd: string): string =>
  ["model", "response_format", "file"]
    .map((name) => {
      const isFile = name === "file";
      const value = isFile ? "x".repeat(40_000) : name === "model" ? "sound" : "text";
      return ["--b", `${head}"${name}"${isFile ? '; filename="a.mp3"' : ""}`, "", value].join(lineEnd);
    })
    .concat("--b--", "")
    .join(lineEnd);
const disposition = "Content-Disposition: form-data; name=";
const forms: Attack[] = [
  { name: "a form with two boundaries", type: "multipart/form-data; boundary=b; boundary=c", lineEnd: "\r\n" },
  { name: "a form with lines that end in LF", type: "multipart/form-data; boundary=b", lineEnd: "\n" },
].map(({ name, type, lineEnd }) => ({
  name,
  path: "/v1/audio/transcriptions",
  raw: formOf(disposition, lineEnd),
  contentType: type,
  plan: { answer: ["you"], tells: "nothing", soundMs: 600_000 },
}));

const refused: Attack[] = (
  [
    { name: "best_of as a text", model: "completing", path: "/v1/completions", body: { prompt: "x", best_of: "20" } },
    {
      name: "best_of as a fraction",
      model: "completing",
      path: "/v1/completions",
      body: { prompt: "x", best_of: 2.5 },
    },
    {
      name: "BEST_OF beside best_of",
      model: "completing",
      path: "/v1/completions",
      body: { prompt: "x", best_of: 1, BEST_OF: 20 },
    },
    { name: "n as a text", raw: '{"model":"told","n":"128","messages":[{"role":"user","content":"Go on."}]}' },
    { name: "n as a fraction", raw: '{"model":"told","n":2.5,"messages":[{"role":"user","content":"Go on."}]}' },
    {
      name: "MODEL beside model",
      raw: '{"model":"told","MODEL":"dearer","messages":[{"role":"user","content":"Go on."}]}',
    },
    {
      name: "a key twice, once in escapes",
      raw: '{"model":"told","mod\\u0065l":"dearer","messages":[{"role":"user","content":"Go on."}]}',
    },
    { name: "background as a text", path: responses, raw: '{"model":"told","background":"true","input":"Go on."}' },
    { name: "a dearer tier without a price", body: say("Go on.", { service_tier: "priority" }) },
    { name: "a dearer speed without a price", path: messages, body: say("Go on.", { max_tokens: 20, speed: "fast" }) },
    {
      name: "a dearer region without a price",
      path: messages,
      body: say("Go on.", { max_tokens: 20, inference_geo: "us" }),
    },
    {
      name: "a provider's tool without a price",
      path: responses,
      body: { input: "Go on.", tools: [{ type: "web_search" }] },
    },
    {
      name: "tools that are no list",
      path: responses,
      body: { input: "Go on.", tools: { a: { type: "web_search" } } },
    },
    { name: "another model to fall back to", body: say("Go on.", { models: ["dearer"] }) },
    { name: "the dearest provider", body: say("Go on.", { provider: { sort: "throughput" } }) },
    { name: "best_of in chat", body: say("Go on.", { best_of: 20 }) },
    { name: "pictures by a tool", path: responses, body: { input: "Go on.", tools: [{ type: "image_generation" }] } },
  ] satisfies Omit<Attack, "plan">[]
).map((attack) => ({ ...attack, plan: told() }));

const sound = (file: Buffer, format: string, seconds: number, text: string): Attack => ({
  name: `${seconds} s of silence as ${format}`,
  model: "sound",
  path: "/v1/audio/transcriptions",
  form: { file, fields: { response_format: format } },
  plan: { answer: [text], tells: "nothing", soundMs: seconds * 1_000 },
});
const lying = (name: string, file: Buffer, head: (file: Buffer) => Buffer): Attack => ({
  ...sound(head(file), "text", 600, "you"),
  name,
});
const sounds: Attack[] = [
  lying("a WAV file whose head tells one byte", quietWav(600), (file) => {
    file.writeUInt32LE(1, 40);
    return file;
  }),
  lying("an MP3 file whose head tells one frame", quietMp3(600), (file) => {
    file.write("Xing\0\0\0\u0001\0\0\0\u0001", 13, "latin1");
    return file;
  }),
  lying("a WAV file with a second format of many bytes", quietWav(600), (file) =>
    // Who decodes it goes by the first.
    Buffer.concat([file.subarray(0, 36), Buffer.from("fmt "), wavFormat(255, 192_000, 32), file.subarray(36)]),
  ),
  lying("an MP3 file in a WAV file of many bytes a second", quietMp3(600), (file) =>
    Buffer.concat([
      Buffer.from("RIFF\0\0\0\0WAVEfmt "),
      wavFormat(1, 16_000, 0, 0x55),
      Buffer.from("data\u0001\0\0\0"),
      file,
    ]),
  ),
  sound(quietMp3(600), "text", 600, "you"),
  sound(quietMp3(600), "srt", 600, "1\n00:00:00,000 --> 00:00:01,000\nyou\n"),
  sound(quietWav(600), "vtt", 600, "WEBVTT\n\n00:00.000 --> 00:01.000\nyou\n"),
];

export const attacks: readonly Attack[] = [
  ...inputs,
  ...outputs,
  ...disguises,
  ...media,
  ...counts,
  ...unseen,
  ...leaving,
  ...many,
  ...tools,
  ...variants,
  ...refused,
  ...forms,
  ...sounds,
];
