import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";

/** A span as a collector gets it by OTLP over HTTP with JSON. */
export type ReceivedSpan = {
  service: string;
  name: string;
  kind: number;
  traceId: string;
  spanId: string;
  parentSpanId: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: Record<string, unknown>;
  events: string[];
  status: number;
};

/** An OpenTelemetry collector on a real socket, which keeps what it is sent. */
export type Collector = AsyncDisposable & { url: string; spans: ReceivedSpan[] };

type Pair = { key: string; value: Record<string, unknown> };
type RawSpan = Omit<ReceivedSpan, "service" | "parentSpanId" | "attributes" | "events" | "status"> & {
  parentSpanId?: string;
  attributes: Pair[];
  events: { name: string }[];
  status: { code?: number };
};
type Export = { resourceSpans: { resource: { attributes: Pair[] }; scopeSpans: { spans: RawSpan[] }[] }[] };

// OTLP's JSON has a field per type: {"intValue": 3}, {"stringValue": "a"}.
const plain = (pairs: Pair[]): Record<string, unknown> =>
  Object.fromEntries(pairs.map(({ key, value }) => [key, Object.values(value)[0]]));

function* spansOf({ resourceSpans }: Export): Generator<ReceivedSpan> {
  for (const { resource, scopeSpans } of resourceSpans) {
    const service = String(plain(resource.attributes)["service.name"]);
    for (const raw of scopeSpans.flatMap(({ spans }) => spans)) {
      const { attributes, events, status, parentSpanId = "", ...rest } = raw;
      const names = events.map(({ name }) => name);
      yield { ...rest, parentSpanId, service, attributes: plain(attributes), events: names, status: status.code ?? 0 };
    }
  }
}

export async function startCollector(): Promise<Collector> {
  const spans: ReceivedSpan[] = [];
  const server = createServer((request, response) => {
    json(request).then(
      (sent) => {
        spans.push(...spansOf(sent as Export));
        response.writeHead(200, { "content-type": "application/json" }).end("{}");
      },
      () => response.writeHead(400).end(),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
