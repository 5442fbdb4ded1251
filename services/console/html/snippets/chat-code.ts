import { inPlace, quoted, shellWord, type Place } from "./place.ts";

/** The body of a chat completion that is streamed, without `stream`. */
export type ChatBody = { model: string; messages: readonly ChatMessage[] } & Record<string, ChatValue>;
export type ChatContent = string | readonly object[];
type ChatMessage = { role: string; content: ChatContent };
type ChatValue = string | number | undefined | readonly ChatMessage[] | readonly object[];

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

export function curlCode(place: Place, body: object): string {
  return `curl ${place.sh("/v1/chat/completions")} \\
  -H "Authorization: Bearer $${place.keyVariable}" \\
  -H "Content-Type: application/json" \\
  -d ${shellWord(JSON.stringify(body))}
`;
}

export function nodeCode(place: Place, body: ChatBody): string {
  const one = (value: object): string => literal(value, "node");
  const fields = given(body).map(([name, value]) => `  ${name}: ${written(value, one, "  ")},\n`);
  return `import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${place.js("/v1")}, apiKey: process.env.${place.keyVariable} });

const stream = await client.chat.completions.create({
${fields.join("")}  stream: true,
});
for await (const event of stream) process.stdout.write(event.choices[0]?.delta.content ?? "");
`;
}

export function pythonCode(place: Place, body: ChatBody): string {
  const one = (value: object): string => literal(value, "python");
  const fields = given(body).map(([name, value]) => `    ${name}=${written(value, one, "    ")},\n`);
  return `import os

from openai import OpenAI

client = OpenAI(base_url=${place.python("/v1")}, api_key=os.environ["${place.keyVariable}"])

stream = client.chat.completions.create(
${fields.join("")}    stream=True,
)
for event in stream:
    if event.choices:
        print(event.choices[0].delta.content or "", end="", flush=True)
`;
}

/** Code that asks what the playground has asked; the secret of a key is to be put into the environment. */
export function chatCode(baseUrl: string, body: ChatBody): { id: string; title: string; text: string }[] {
  const place = inPlace(baseUrl);
  return [
    // Without buffering, as what comes is a stream.
    { id: "curl", title: "curl", text: curlCode(place, { ...body, stream: true }).replace("curl", "curl -N") },
    { id: "python", title: "Python", text: pythonCode(place, body) },
    { id: "node", title: "Node", text: nodeCode(place, body) },
  ];
}
