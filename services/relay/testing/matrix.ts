import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { UnsupportedError } from "../dialects/conversation.ts";
import { clients, providers } from "../dialects/conversions.ts";
import type { CallerRequest } from "../dialects/conversion.ts";
import type { DialectName, UpstreamDialectName } from "../dialects/dialect.ts";
import { unfoldReply } from "../dialects/reply.ts";
import { replyReaderOf } from "../dialects/testing/reading.ts";

/** Where fixtures and golden files lie. */
export const dialectsFolder = join(import.meta.dirname, "../dialects");

/** One cell of the matrix for one fixture: what becomes of it, or why it is refused. */
export type Cell = { name: string; file: string; result: unknown };

const fixedSeconds = 1_760_000_000;

type Fixture<Name> = { dialect: Name; name: string; content: Record<string, unknown> };

function fixturesOf<Name extends string>(kind: "requests" | "replies"): Fixture<Name>[] {
  const folder = join(dialectsFolder, "fixtures", kind);
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".json"));
  return files.toSorted().map((file) => {
    const [dialect, name] = file.replace(/\.json$/, "").split("/");
    const content = JSON.parse(readFileSync(join(folder, file), "utf8")) as Record<string, unknown>;
    return { dialect: dialect as Name, name: name ?? "", content };
  });
}

function requestCell({ dialect, name, content }: Fixture<DialectName>, provider: UpstreamDialectName): Cell {
  const cell = `${dialect} ${name} → ${provider}`;
  const file = `requests/${dialect}/${name}.${provider}.json`;
  try {
    const client = clients[dialect];
    const read = client?.readRequest(content);
    if (!client || !read) throw new Error(`no client speaks ${dialect}`);
    const takesOutputFormat = dialect !== "openai-chat";
    const target = { model: "m-upstream", maxOutputTokens: 32_000, quirks: new Set<never>(), takesOutputFormat };
    const written = providers[provider]?.writeRequest(read.conversation, target);
    const dropped = [...read.dropped, ...[...(written?.losses ?? [])].map((loss) => client.lossNames[loss])];
    return { name: cell, file, result: { dropped, body: written?.body } };
  } catch (error) {
    if (!(error instanceof UnsupportedError)) throw error;
    return { name: cell, file, result: { refused: error.message } };
  }
}

function replyCell({ dialect, name, content }: Fixture<UpstreamDialectName>, to: DialectName): Cell {
  const reply = replyReaderOf(dialect)(content);
  const client = clients[to];
  if (!reply || !client) throw new Error(`${dialect} ${name} is no answer of its dialect`);
  const asked: CallerRequest = { model: "m", wantsStreamUsage: true, inputTokens: 20 };
  const timed = { ...reply, createdAtSeconds: reply.createdAtSeconds ?? fixedSeconds };
  const writer = client.createStreamWriter(asked);
  const stream = unfoldReply(timed).map((event) => writer.write(event));
  const events = stream
    .join("")
    .split("\n\n")
    .filter((event) => event !== "");
  const result = { whole: client.writeReply(timed, asked), stream: events };
  return { name: `${dialect} ${name} → ${to}`, file: `replies/${dialect}/${name}.${to}.json`, result };
}

/** Every fixture in every other dialect: requests as providers get them, replies as callers get them. */
export function matrixCells(): Cell[] {
  const providerNames = Object.keys(providers) as UpstreamDialectName[];
  const clientNames = Object.keys(clients) as DialectName[];
  const requests = fixturesOf<DialectName>("requests").flatMap((fixture) =>
    providerNames.filter((name) => name !== fixture.dialect).map((name) => requestCell(fixture, name)),
  );
  const replies = fixturesOf<UpstreamDialectName>("replies").flatMap((fixture) =>
    clientNames.filter((name) => name !== fixture.dialect).map((name) => replyCell(fixture, name)),
  );
  return [...requests, ...replies];
}

/** Text of a golden file. */
export function goldenText(result: unknown): string {
  return `${JSON.stringify(result, null, 2)}\n`;
}
