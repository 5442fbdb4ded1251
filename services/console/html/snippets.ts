/** How to ask the API with one tool. */
export type Snippet = {
  id: string;
  title: string;
  /** What must be installed; empty: nothing. */
  install: string;
  /** The endpoint that the model must have. */
  endpoint: string;
  /** How a file that holds it ends; `set-up` is typed into a shell before the program is started. */
  kind: "sh" | "mjs" | "py" | "go" | "set-up";
  text: (place: SnippetPlace) => string;
};

export type SnippetPlace = { baseUrl: string; model: string };

/** Name of the environment variable that holds the secret of a key. */
export const keyVariable = "RELAY_API_KEY";

const quoted = (text: string): string => JSON.stringify(text);

/** One word for sh, whatever it holds. */
const word = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

const question = "Say hello.";

/** The body of a chat completion that is streamed, without `stream`. */
export type ChatBody = { model: string; messages: readonly ChatMessage[] } & Record<string, ChatValue>;
export type ChatContent = string | readonly object[];
type ChatMessage = { role: string; content: ChatContent };
type ChatValue = string | number | undefined | readonly ChatMessage[] | readonly object[];

const hello = (model: string): ChatBody => ({ model, messages: [{ role: "user", content: question }] });

const given = (body: ChatBody): [string, ChatValue][] =>
  Object.entries(body).filter(([, value]) => value !== undefined);

/** What JSON quotes, Python reads alike. */
function written(value: ChatValue, one: (of: object) => string, indent: string): string {
  if (typeof value !== "object") return JSON.stringify(value);
  if (value.length === 1) return `[${value.map(one).join("")}]`;
  return `[\n${value.map((each) => `${indent}${indent}${one(each)},\n`).join("")}${indent}]`;
}

/** A value as JavaScript and Python write it, which is JSON but for three words of Python's. */
function literal(value: unknown, language: "node" | "python"): string {
  if (Array.isArray(value)) return `[${value.map((one) => literal(one, language)).join(", ")}]`;
  if (typeof value === "object" && value !== null) {
    const isNode = language === "node";
    const fields = Object.entries(value).map(
      ([name, one]) => `${isNode && plainName.test(name) ? name : JSON.stringify(name)}: ${literal(one, language)}`,
    );
    return isNode && fields.length > 0 ? `{ ${fields.join(", ")} }` : `{${fields.join(", ")}}`;
  }
  const text = typeof value === "string" ? quoted(value) : JSON.stringify(value);
  return language === "python" ? (pythonWords[text] ?? text) : text;
}

const plainName = /^(?!__proto__$)[A-Za-z_]\w*$/;
const pythonWords: Readonly<Record<string, string>> = { true: "True", false: "False", null: "None" };

function curlCode(baseUrl: string, body: object): string {
  return `curl ${baseUrl}/v1/chat/completions \\
  -H "Authorization: Bearer $${keyVariable}" \\
  -H "Content-Type: application/json" \\
  -d ${word(JSON.stringify(body))}
`;
}

function nodeCode(baseUrl: string, body: ChatBody): string {
  const one = (value: object): string => literal(value, "node");
  const fields = given(body).map(([name, value]) => `  ${name}: ${written(value, one, "  ")},\n`);
  return `import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${quoted(`${baseUrl}/v1`)}, apiKey: process.env.${keyVariable} });

const stream = await client.chat.completions.create({
${fields.join("")}  stream: true,
});
for await (const event of stream) process.stdout.write(event.choices[0]?.delta.content ?? "");
`;
}

function pythonCode(baseUrl: string, body: ChatBody): string {
  const one = (value: object): string => literal(value, "python");
  const fields = given(body).map(([name, value]) => `    ${name}=${written(value, one, "    ")},\n`);
  return `import os

from openai import OpenAI

client = OpenAI(base_url=${quoted(`${baseUrl}/v1`)}, api_key=os.environ["${keyVariable}"])

stream = client.chat.completions.create(
${fields.join("")}    stream=True,
)
for event in stream:
    if event.choices:
        print(event.choices[0].delta.content or "", end="", flush=True)
`;
}

/** Code that asks what the playground has asked; the secret of a key is to be put into the environment. */
export const chatCode = (baseUrl: string, body: ChatBody): { id: string; title: string; text: string }[] => [
  // Without buffering, as what comes is a stream.
  { id: "curl", title: "curl", text: curlCode(baseUrl, { ...body, stream: true }).replace("curl", "curl -N") },
  { id: "python", title: "Python", text: pythonCode(baseUrl, body) },
  { id: "node", title: "Node", text: nodeCode(baseUrl, body) },
];

/** Each works as it is once the environment variable is set. */
export const snippets: readonly Snippet[] = [
  {
    id: "curl",
    title: "curl",
    install: "",
    endpoint: "/v1/chat/completions",
    kind: "sh",
    text: ({ baseUrl, model }) => curlCode(baseUrl, hello(model)),
  },
  {
    id: "openai",
    title: "Node",
    install: "npm install openai",
    endpoint: "/v1/chat/completions",
    kind: "mjs",
    text: ({ baseUrl, model }) => nodeCode(baseUrl, hello(model)),
  },
  {
    id: "openai-python",
    title: "Python",
    install: "pip install openai",
    endpoint: "/v1/chat/completions",
    kind: "py",
    text: ({ baseUrl, model }) => pythonCode(baseUrl, hello(model)),
  },
  {
    id: "anthropic",
    title: "Anthropic SDK",
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
    title: "Vercel AI SDK",
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
  {
    id: "langchain",
    title: "LangChain",
    install: "npm install @langchain/openai",
    endpoint: "/v1/chat/completions",
    kind: "mjs",
    text: ({ baseUrl, model }) => `import { ChatOpenAI } from "@langchain/openai";

const chat = new ChatOpenAI({
  model: ${quoted(model)},
  apiKey: process.env.${keyVariable},
  configuration: { baseURL: ${quoted(`${baseUrl}/v1`)} },
});

for await (const chunk of await chat.stream(${quoted(question)})) process.stdout.write(chunk.text);
`,
  },
  {
    id: "openai-go",
    title: "Go",
    install: "go mod init ask && go get github.com/openai/openai-go/v3",
    endpoint: "/v1/chat/completions",
    kind: "go",
    // What JSON quotes, Go reads alike.
    text: ({ baseUrl, model }) => `package main

import (
	"context"
	"fmt"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() {
	client := openai.NewClient(
		option.WithBaseURL(${quoted(`${baseUrl}/v1`)}),
		option.WithAPIKey(os.Getenv("${keyVariable}")),
	)
	stream := client.Chat.Completions.NewStreaming(context.Background(), openai.ChatCompletionNewParams{
		Model:    ${quoted(model)},
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(${quoted(question)})},
	})
	for stream.Next() {
		if choices := stream.Current().Choices; len(choices) > 0 {
			fmt.Print(choices[0].Delta.Content)
		}
	}
	if err := stream.Err(); err != nil {
		panic(err)
	}
}
`,
  },
  {
    id: "claude-code",
    title: "Claude Code",
    install: "npm install -g @anthropic-ai/claude-code",
    endpoint: "/v1/messages",
    kind: "set-up",
    text: ({ baseUrl, model }) => {
      const name = word(model);
      return `export ANTHROPIC_BASE_URL=${word(baseUrl)} ANTHROPIC_AUTH_TOKEN="$${keyVariable}" ANTHROPIC_MODEL=${name}
export ANTHROPIC_DEFAULT_OPUS_MODEL=${name} ANTHROPIC_DEFAULT_SONNET_MODEL=${name}
export ANTHROPIC_DEFAULT_HAIKU_MODEL=${name}
claude
`;
    },
  },
  {
    id: "codex",
    title: "Codex",
    install: "npm install -g @openai/codex",
    endpoint: "/v1/responses",
    kind: "set-up",
    text: ({ baseUrl, model }) => `mkdir -p ~/.codex
cat > ~/.codex/config.toml <<'END'
model = ${quoted(model)}
model_provider = "relay"
[model_providers.relay]
name = "relay"
base_url = ${quoted(`${baseUrl}/v1`)}
env_key = "${keyVariable}"
wire_api = "responses"
END
codex
`,
  },
  {
    id: "opencode",
    title: "opencode",
    install: "npm install -g opencode-ai",
    endpoint: "/v1/chat/completions",
    kind: "set-up",
    text: ({ baseUrl, model }) => `cat > opencode.json <<'END'
{
  "model": ${quoted(`relay/${model}`)},
  "provider": {
    "relay": {
      "npm": "@ai-sdk/openai-compatible",
      "options": { "baseURL": ${quoted(`${baseUrl}/v1`)}, "apiKey": "{env:${keyVariable}}" },
      "models": { ${quoted(model)}: {} }
    }
  }
}
END
opencode
`,
  },
];
