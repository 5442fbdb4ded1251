/** How to ask the API with one tool. */
export type Snippet = {
  id: string;
  title: string;
  /** What must be installed; empty: nothing. */
  install: string;
  /** The endpoint that the model must have. */
  endpoint: string;
  /** How a file that holds it ends. */
  kind: "sh" | "mjs" | "py";
  text: (place: { baseUrl: string; model: string }) => string;
};

/** Name of the environment variable that holds the secret of a key. */
export const keyVariable = "RELAY_API_KEY";

const quoted = (text: string): string => JSON.stringify(text);

/** One word for sh, whatever it holds. */
const word = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

const question = "Say hello.";

/** Each works as it is once the environment variable is set. */
export const snippets: readonly Snippet[] = [
  {
    id: "curl",
    title: "curl",
    install: "",
    endpoint: "/v1/chat/completions",
    kind: "sh",
    text: ({ baseUrl, model }) => {
      const body = JSON.stringify({ model, messages: [{ role: "user", content: question }] });
      return `curl ${baseUrl}/v1/chat/completions \\
  -H "Authorization: Bearer $${keyVariable}" \\
  -H "Content-Type: application/json" \\
  -d ${word(body)}
`;
    },
  },
  {
    id: "openai",
    title: "openai (JavaScript)",
    install: "npm install openai",
    endpoint: "/v1/chat/completions",
    kind: "mjs",
    text: ({ baseUrl, model }) => `import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${quoted(`${baseUrl}/v1`)}, apiKey: process.env.${keyVariable} });

const stream = await client.chat.completions.create({
  model: ${quoted(model)},
  messages: [{ role: "user", content: ${quoted(question)} }],
  stream: true,
});
for await (const event of stream) process.stdout.write(event.choices[0]?.delta.content ?? "");
`,
  },
  {
    id: "openai-python",
    title: "openai (Python)",
    install: "pip install openai",
    endpoint: "/v1/chat/completions",
    kind: "py",
    // What JSON quotes, Python reads alike.
    text: ({ baseUrl, model }) => `import os

from openai import OpenAI

client = OpenAI(base_url=${quoted(`${baseUrl}/v1`)}, api_key=os.environ["${keyVariable}"])

stream = client.chat.completions.create(
    model=${quoted(model)},
    messages=[{"role": "user", "content": ${quoted(question)}}],
    stream=True,
)
for event in stream:
    if event.choices:
        print(event.choices[0].delta.content or "", end="", flush=True)
`,
  },
  {
    id: "anthropic",
    title: "anthropic",
    install: "npm install @anthropic-ai/sdk",
    endpoint: "/v1/messages",
    kind: "mjs",
    text: ({ baseUrl, model }) => `import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: ${quoted(baseUrl)}, apiKey: process.env.${keyVariable} });

const stream = client.messages.stream({
  model: ${quoted(model)},
  max_tokens: 1024,
  messages: [{ role: "user", content: ${quoted(question)} }],
});
stream.on("text", (text) => process.stdout.write(text));
await stream.finalMessage();
`,
  },
  {
    id: "ai-sdk",
    title: "ai-sdk",
    install: "npm install ai @ai-sdk/openai",
    endpoint: "/v1/chat/completions",
    kind: "mjs",
    text: ({ baseUrl, model }) => `import { createOpenAI } from "@ai-sdk/openai";
import { streamText } from "ai";

const relay = createOpenAI({ baseURL: ${quoted(`${baseUrl}/v1`)}, apiKey: process.env.${keyVariable} });

const { textStream } = streamText({ model: relay.chat(${quoted(model)}), prompt: ${quoted(question)} });
for await (const text of textStream) process.stdout.write(text);
`,
  },
];
