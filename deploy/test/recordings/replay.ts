import { isDeepStrictEqual } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { usageBuckets } from "#shared/money/pricing.ts";
import { catalogNameOf } from "../../../services/relay/catalog/schema.ts";
import { billOf, type Bill } from "./bill.ts";
import { catalogText, modelOn, upstreamAt } from "../e2e/catalog.ts";
import {
  foldChat,
  formatOf,
  isStreamed,
  type ProviderFormat,
  readChat,
  readMessage,
  readRecorded,
  readResponse,
  recordedEvents,
  type Reading,
} from "./reading.ts";
import type { Exchange } from "./recordings.ts";
import { upstreamModel } from "./replay-upstream.ts";

export const clientFormats = ["chat", "responses", "messages"] as const;
export type ClientFormat = (typeof clientFormats)[number];

const upstreamDialects: Record<ProviderFormat, string> = {
  chat: "openai-chat",
  responses: "openai-responses",
  messages: "anthropic-messages",
  gemini: "gemini-generate",
};

export const providerFormats = Object.keys(upstreamDialects) as ProviderFormat[];

// A price for each bucket but that of calls, so that the ledger shows every unit.
const pricedBuckets = usageBuckets.filter((bucket) => bucket !== "requests" && bucket !== "otherModelsNanos");
const price = {
  version: "recorded-1",
  ...Object.fromEntries(pricedBuckets.map((bucket, at) => [catalogNameOf(bucket), `${at + 1}.000000007`])),
};

/** Name of the model that answers with the exchange of this number. */
export const modelOf = (number: number): string => `recorded-${number}`;

/** A catalog with an upstream for each format, all at one address, and a model for each exchange. */
export function replayCatalog(url: string, exchanges: Exchange[]): string {
  const dialectsOf = (format: ProviderFormat) => ({ dialects: [upstreamDialects[format]] as never });
  const models = exchanges.flatMap((exchange, number) => {
    const format = formatOf(exchange);
    if (format === undefined) return [];
    const upstreams = [{ name: format, model: upstreamModel(number) }];
    const limits = { context_tokens: 1_000_000, max_output_tokens: 200_000 };
    return [[modelOf(number), modelOn(format, { upstreams, ...limits, price })]];
  });
  return catalogText({
    upstreams: Object.fromEntries(providerFormats.map((format) => [format, upstreamAt(url, dialectsOf(format))])),
    models: Object.fromEntries(models) as Record<string, object>,
  });
}

/** What became of one recorded answer on its way to one client. */
export type Cell = {
  name: string;
  provider: ProviderFormat;
  client: ClientFormat;
  isStream: boolean;
  /** By which the ledger knows the call. */
  endpoint: string;
  model: string;
  /** What must be charged; undefined where the provider told no counts. */
  bill: Bill | undefined;
  outcome: "passed" | "refused" | "failed";
  /** Why it did not pass. */
  cause: string;
};

type Question = { model: string; toolNames: string[]; isStream: boolean; own: Record<string, unknown> | undefined };
type Clients = { openai: OpenAI; anthropic: Anthropic };

const schema = { type: "object", properties: {} };
const said = "Please go on.";

async function askChat({ openai }: Clients, { model, toolNames, isStream, own }: Question): Promise<Reading> {
  const tools = toolNames.map((name) => ({ type: "function", function: { name, parameters: schema } }));
  const { stream: _, ...body } = own ?? {
    messages: [{ role: "user", content: said }],
    tools,
    ...(isStream && { stream_options: { include_usage: true } }),
  };
  const asked = { ...body, model } as Pick<OpenAI.ChatCompletionCreateParamsNonStreaming, "model" | "messages">;
  const { completions } = openai.chat;
  if (!isStream) return readChat(await completions.create(asked));
  const streaming = completions.stream(asked);
  const chunks: unknown[] = [];
  streaming.on("chunk", (chunk) => chunks.push(chunk));
  const whole = readChat(await streaming.finalChatCompletion());
  // The client gathers only fields that it knows, and thoughts are none of them.
  return { ...whole, thinking: readChat(foldChat(chunks)).thinking };
}

async function askResponses({ openai }: Clients, { model, toolNames, isStream, own }: Question): Promise<Reading> {
  const tools = toolNames.map((name) => ({ type: "function", name, parameters: schema, strict: false }));
  const { stream: _, ...body } = own ?? { input: said, tools };
  const asked = { ...body, model };
  const { responses } = openai;
  return readResponse(isStream ? await responses.stream(asked).finalResponse() : await responses.create(asked));
}

async function askMessages({ anthropic }: Clients, { model, toolNames, isStream, own }: Question): Promise<Reading> {
  const tools = toolNames.map((name) => ({ name, input_schema: schema }));
  const { stream: _, ...body } = own ?? { messages: [{ role: "user", content: said }], max_tokens: 4_000, tools };
  const asked = { ...body, model } as Anthropic.MessageCreateParamsNonStreaming;
  const { messages } = anthropic;
  return readMessage(isStream ? await messages.stream(asked).finalMessage() : await messages.create(asked));
}

const askers = { chat: askChat, responses: askResponses, messages: askMessages };
export const endpoints = { chat: "/v1/chat/completions", responses: "/v1/responses", messages: "/v1/messages" };

function differences(recorded: Reading, got: Reading): string {
  const names = Object.keys(recorded) as (keyof Reading)[];
  // A provider that told no counts leaves them to whoever must tell some.
  const due = names.filter((name) => recorded[name] !== undefined);
  const differing = due.filter((name) => !isDeepStrictEqual(got[name], recorded[name]));
  const show = (value: unknown): string => JSON.stringify(value)?.slice(0, 120) ?? "nothing";
  return differing.map((name) => `${name} is ${show(got[name])} instead of ${show(recorded[name])}`).join("; ");
}

const shortOf = (text: string): string => text.replaceAll(/\s+/g, " ").slice(0, 300);

function causeOf(error: unknown): Pick<Cell, "outcome" | "cause"> {
  const cause = shortOf(error instanceof Error ? `${error.name}: ${error.message}` : String(error));
  const isAnswered = error instanceof OpenAI.APIError || error instanceof Anthropic.APIError;
  return { outcome: isAnswered && error.status !== undefined ? "refused" : "failed", cause };
}

async function fillCell(clients: Clients, { exchange, number, client }: Task): Promise<Cell | undefined> {
  const provider = formatOf(exchange);
  if (provider === undefined) return undefined;
  const isStream = isStreamed(exchange);
  const recorded = readRecorded(exchange, provider);
  const own = provider === client ? (JSON.parse(exchange.requestBody) as Record<string, unknown>) : undefined;
  const toolNames = [...new Set(["look", ...recorded.calls.map(({ name }) => name)])];
  const model = modelOf(number);
  const bill = billOf(provider, recordedEvents(exchange));
  const cell = { name: exchange.name, provider, client, isStream, endpoint: endpoints[client], model, bill };
  try {
    const got = await askers[client](clients, { model, toolNames, isStream, own });
    const cause = differences(recorded, got);
    return { ...cell, outcome: cause === "" ? "passed" : "failed", cause };
  } catch (error) {
    return { ...cell, ...causeOf(error) };
  }
}

type Task = { exchange: Exchange; number: number; client: ClientFormat };

const callsAtOnce = 12;

/** Sends every exchange's answer through a relay to the official client of every client format. */
export async function replayAll(relayUrl: string, secret: string, exchanges: Exchange[]): Promise<Cell[]> {
  const common = { apiKey: secret, maxRetries: 0, timeout: 20_000 };
  const openai = new OpenAI({ ...common, baseURL: `${relayUrl}/v1` });
  const clients = { openai, anthropic: new Anthropic({ ...common, baseURL: relayUrl }) };
  const tasks = exchanges.flatMap((exchange, number) =>
    clientFormats.map((client): Task => ({ exchange, number, client })),
  );
  const cells = await inTurns(tasks, (task) => fillCell(clients, task));
  return cells.filter((cell) => cell !== undefined);
}

/** Does some work for each task, a few at once. */
export async function inTurns<T, R>(tasks: T[], work: (task: T) => Promise<R>): Promise<R[]> {
  const done: R[] = [];
  const queue = tasks.values();
  const takeTasks = async (): Promise<void> => {
    for (const task of queue) done.push(await work(task));
  };
  await Promise.all(Array.from({ length: callsAtOnce }, takeTasks));
  return done;
}

/** The cells counted, as lines of text: passed / refused / failed of each pair of formats, whole and streamed. */
export function matrixOf(cells: Cell[]): string[] {
  const countOf = (provider: ProviderFormat, client: ClientFormat, isStream: boolean): string => {
    const here = cells.filter(
      (cell) => cell.provider === provider && cell.client === client && cell.isStream === isStream,
    );
    const count = (outcome: Cell["outcome"]): number => here.filter((cell) => cell.outcome === outcome).length;
    return `${count("passed")}/${count("refused")}/${count("failed")}`;
  };
  const line = (name: string, texts: string[]): string => [name, ...texts].map((text) => text.padEnd(22)).join("");
  return [
    line(
      "passed/refused/failed",
      clientFormats.flatMap((client) => [`${client} whole`, `${client} stream`]),
    ),
    ...providerFormats.map((provider) =>
      line(
        provider,
        clientFormats.flatMap((client) => [countOf(provider, client, false), countOf(provider, client, true)]),
      ),
    ),
  ];
}
