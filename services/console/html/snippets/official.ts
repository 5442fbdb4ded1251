import { curlCode, nodeCode, pythonCode, type ChatBody } from "./chat-code.ts";
import { quoted } from "./place.ts";
import { question, type Snippet } from "./snippet.ts";

const hello = (model: string): ChatBody => ({ model, messages: [{ role: "user", content: question }] });

/** A program in Go that asks with a client of this module. */
const goProgram = (module: string, main: string): string => `package main

import (
	"context"
	"fmt"
	"os"

	"${module}"
	"${module}/option"
)

func main() {
${main}	if err := stream.Err(); err != nil {
		panic(err)
	}
}
`;

/** Without a client, and with those of the makers of the formats. */
export const official: readonly Snippet[] = [
  {
    id: "curl",
    title: "curl",
    install: "",
    endpoint: "/v1/chat/completions",
    kind: "sh",
    text: (place, model) => curlCode(place, hello(model)),
  },
  {
    id: "openai",
    title: "OpenAI for Node",
    install: "npm install openai",
    endpoint: "/v1/chat/completions",
    kind: "mjs",
    text: (place, model) => nodeCode(place, hello(model)),
  },
  {
    id: "openai-python",
    title: "OpenAI for Python",
    install: "pip install openai",
    endpoint: "/v1/chat/completions",
    kind: "py",
    text: (place, model) => pythonCode(place, hello(model)),
  },
  {
    id: "openai-go",
    title: "OpenAI for Go",
    install: "go mod init ask && go get github.com/openai/openai-go/v3",
    endpoint: "/v1/chat/completions",
    kind: "go",
    text: ({ go, keyVariable }, model) =>
      goProgram(
        "github.com/openai/openai-go/v3",
        `	client := openai.NewClient(option.WithBaseURL(${go("/v1")}), option.WithAPIKey(os.Getenv("${keyVariable}")))
	stream := client.Chat.Completions.NewStreaming(context.Background(), openai.ChatCompletionNewParams{
		Model:    ${quoted(model)},
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(${quoted(question)})},
	})
	for stream.Next() {
		if choices := stream.Current().Choices; len(choices) > 0 {
			fmt.Print(choices[0].Delta.Content)
		}
	}
`,
      ),
  },
  {
    id: "anthropic",
    title: "Anthropic for Node",
    install: "npm install @anthropic-ai/sdk",
    endpoint: "/v1/messages",
    kind: "mjs",
    text: ({ js, keyVariable }, model) => `import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: ${js("")}, apiKey: process.env.${keyVariable} });

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
    id: "anthropic-python",
    title: "Anthropic for Python",
    install: "pip install anthropic",
    endpoint: "/v1/messages",
    kind: "py",
    text: ({ python, keyVariable }, model) => `import os

from anthropic import Anthropic

client = Anthropic(base_url=${python("")}, api_key=os.environ["${keyVariable}"])

messages = [{"role": "user", "content": ${quoted(question)}}]
with client.messages.stream(model=${quoted(model)}, max_tokens=1024, messages=messages) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)
`,
  },
  {
    id: "anthropic-go",
    title: "Anthropic for Go",
    install: "go mod init ask && go get github.com/anthropics/anthropic-sdk-go",
    endpoint: "/v1/messages",
    kind: "go",
    text: ({ go, keyVariable }, model) =>
      goProgram(
        "github.com/anthropics/anthropic-sdk-go",
        `	client := anthropic.NewClient(option.WithBaseURL(${go("")}), option.WithAPIKey(os.Getenv("${keyVariable}")))
	stream := client.Messages.NewStreaming(context.Background(), anthropic.MessageNewParams{
		Model:     ${quoted(model)},
		MaxTokens: 1024,
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(${quoted(question)}))},
	})
	for stream.Next() {
		fmt.Print(stream.Current().Delta.Text)
	}
`,
      ),
  },
];
