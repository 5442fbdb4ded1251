import { quoted } from "./place.ts";
import { question, type Snippet } from "./snippet.ts";

/** Frameworks, which bring clients of their own or use the official ones. */
export const frameworks: readonly Snippet[] = [
  {
    id: "ai-sdk",
    title: "Vercel AI SDK",
    install: "npm install ai @ai-sdk/openai",
    endpoint: "/v1/chat/completions",
    kind: "mjs",
    text: ({ js, keyVariable }, model) => `import { createOpenAI } from "@ai-sdk/openai";
import { streamText } from "ai";

const relay = createOpenAI({ baseURL: ${js("/v1")}, apiKey: process.env.${keyVariable} });

const { textStream } = streamText({ model: relay.chat(${quoted(model)}), prompt: ${quoted(question)} });
for await (const text of textStream) process.stdout.write(text);
`,
  },
  {
    id: "langchain",
    title: "LangChain for Node",
    install: "npm install @langchain/openai",
    endpoint: "/v1/chat/completions",
    kind: "mjs",
    text: ({ js, keyVariable }, model) => `import { ChatOpenAI } from "@langchain/openai";

const chat = new ChatOpenAI({
  model: ${quoted(model)},
  apiKey: process.env.${keyVariable},
  configuration: { baseURL: ${js("/v1")} },
});

for await (const chunk of await chat.stream(${quoted(question)})) process.stdout.write(chunk.text);
`,
  },
  {
    id: "langchain-python",
    title: "LangChain for Python",
    install: "pip install langchain-openai",
    endpoint: "/v1/chat/completions",
    kind: "py",
    text: ({ python, keyVariable }, model) => `import os

from langchain_openai import ChatOpenAI

chat = ChatOpenAI(
    model=${quoted(model)},
    base_url=${python("/v1")},
    api_key=os.environ["${keyVariable}"],
    stream_usage=True,
)

for chunk in chat.stream(${quoted(question)}):
    print(chunk.text, end="", flush=True)
`,
  },
  {
    id: "llamaindex",
    title: "LlamaIndex",
    install: "pip install llama-index-llms-openai-like",
    endpoint: "/v1/chat/completions",
    kind: "py",
    text: ({ python, keyVariable }, model) => `import os

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

llm = OpenAILike(
    model=${quoted(model)},
    api_base=${python("/v1")},
    api_key=os.environ["${keyVariable}"],
    is_chat_model=True,
    is_function_calling_model=True,
)

for chunk in llm.stream_chat([ChatMessage(role="user", content=${quoted(question)})]):
    print(chunk.delta or "", end="", flush=True)
`,
  },
  {
    id: "pydantic-ai",
    title: "pydantic-ai",
    install: "pip install 'pydantic-ai-slim[openai]'",
    endpoint: "/v1/responses",
    kind: "py",
    text: ({ python, keyVariable }, model) => `import os

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url=${python("/v1")}, api_key=os.environ["${keyVariable}"])
agent = Agent(OpenAIResponsesModel(${quoted(model)}, provider=provider))

print(agent.run_sync(${quoted(question)}).output)
`,
  },
  {
    id: "instructor",
    title: "instructor",
    install: "pip install instructor",
    endpoint: "/v1/chat/completions",
    kind: "py",
    text: ({ python, keyVariable }, model) => `import os

import instructor
from openai import OpenAI
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    age: int


client = OpenAI(base_url=${python("/v1")}, api_key=os.environ["${keyVariable}"])
person = instructor.from_openai(client).chat.completions.create(
    model=${quoted(model)},
    messages=[{"role": "user", "content": "Ada is 36 years old."}],
    response_model=Person,
)

print(person.name, person.age)
`,
  },
  {
    id: "openai-agents",
    title: "openai-agents",
    install: "pip install openai-agents",
    endpoint: "/v1/responses",
    kind: "py",
    text: ({ python, keyVariable }, model) => `import os

from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)
client = AsyncOpenAI(base_url=${python("/v1")}, api_key=os.environ["${keyVariable}"])
agent = Agent(name="Greeter", model=OpenAIResponsesModel(model=${quoted(model)}, openai_client=client))

print(Runner.run_sync(agent, ${quoted(question)}).final_output)
`,
  },
  {
    id: "litellm",
    title: "litellm",
    install: "pip install litellm",
    endpoint: "/v1/chat/completions",
    kind: "py",
    text: ({ python, keyVariable }, model) => `import os

import litellm

stream = litellm.completion(
    model=${quoted(`openai/${model}`)},
    api_base=${python("/v1")},
    api_key=os.environ["${keyVariable}"],
    messages=[{"role": "user", "content": ${quoted(question)}}],
    stream=True,
)
for chunk in stream:
    print(chunk.choices[0].delta.content or "", end="", flush=True)
`,
  },
];
