import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { openGrpcCredentials } from "#shared/grpc/credentials.ts";
import { jetstream, type JetStreamClient } from "@nats-io/jetstream";
import { Pool, type Dispatcher } from "undici";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { connectGrpc } from "#shared/grpc/grpc.ts";
import { every, stopSignal } from "#shared/process/lifecycle.ts";
import { createLog, gatherLines, infoPlain } from "#shared/process/log.ts";
import { keepConnected } from "#shared/stores/nats.ts";
import { createRegistry } from "#shared/metrics/ops.ts";
import { createRid } from "#shared/money/rid.ts";
import { until } from "#shared/testing/until.ts";
import { callerOf, admitAtPrice } from "../../services/relay/charge/admit.ts";
import { followCatalog } from "../../services/relay/catalog/catalog.ts";
import { findModel } from "../../services/relay/catalog/choose.ts";
import { estimateTokens, member, stringOf } from "../../services/relay/dialects/dialect.ts";
import { readUsage } from "../../services/relay/dialects/openai-shared/usage.ts";
import { guardStream } from "../../services/relay/stream/guard.ts";
import { beginLiveCall, type LiveCall } from "../../services/relay/live-call.ts";
import { createMetrics } from "../../services/relay/metrics.ts";
import { createPublisher } from "../../services/relay/charge/publish.ts";
import { openQuotaSession } from "../../services/relay/charge/quota-session.ts";
import { confirmBooked, ridOfRecord, settle, type SettlementDeps } from "../../services/relay/charge/settle.ts";
import { openSpool } from "../../services/relay/charge/spool.ts";
import { announce, upstreamOrigin, withoutConnection } from "./proxy-process.ts";

// The least that a proxy in Node can be that charges for what it serves: the bare proxy with the relay's own hold,
// spool, settlement, usage event and log line. No routes, checks, limits, dialects, traces or metrics of calls. What
// the relay costs beyond this is the gateway; what this costs beyond the bare proxy is the money.

const { GRPC_CERT_FILE = "", GRPC_KEY_FILE = "", GRPC_CA_FILE = "" } = process.env;
const { AUTH_QUOTA_ADDRESS = "", NATS_URL = "", CATALOG_FILE = "", SPOOL_DIR = "" } = process.env;
const endpoint = "/v1/chat/completions";
const estimateNanos = 1_000_000n;
const readyTimeoutMs = 10_000;
const drainMs = 5_000;

const session = createRid();
const lines = gatherLines("metered");
const log = createLog("metered", "info", lines);
const registry = createRegistry("metered");

await using resources = new AsyncDisposableStack();
resources.defer(() => lines.flushSync());
const catalog = resources.use(followCatalog(CATALOG_FILE, process.env, log));
const spool = resources.use(await openSpool(SPOOL_DIR, session, { log, ridOf: ridOfRecord }));
const credentials = resources.use(openGrpcCredentials({ GRPC_CERT_FILE, GRPC_KEY_FILE, GRPC_CA_FILE }, log));
const channel = resources.use(connectGrpc(AUTH_QUOTA_ADDRESS, credentials, "auth-quota"));
const quota = resources.use(openQuotaSession(channel, session, log));
// By the name of its login, which reads only answers to that name.
const nats = resources.use(keepConnected(NATS_URL, { name: "relay", onState: () => undefined, log }));
const jetStream = (): JetStreamClient | undefined => {
  const connection = nats.current();
  return connection && jetstream(connection);
};
const counts = { published: () => undefined, failed: () => undefined, dropped: () => undefined };
const publisher = resources.use(createPublisher(jetStream, session, counts, log));
let sequence = 0n;
const settling: SettlementDeps = {
  relaySession: session,
  spool,
  quota,
  publisher,
  metrics: createMetrics(registry),
  log,
  nextSequence: () => sequence++,
  refused: new Set(),
  onBooked: () => undefined,
  watch: { lookedAtMs: Infinity, look: () => undefined },
};
resources.use(every(2_000, async () => void (await confirmBooked(settling)), log));
const pool = new Pool(upstreamOrigin(), { pipelining: 1, allowH2: false });
resources.defer(() => pool.close());

const server = createServer((request, response) => {
  const parts: Buffer[] = [];
  request.on("data", (part: Buffer) => parts.push(part));
  request.on("end", () => {
    serve(request, response, Buffer.concat(parts)).catch((error: unknown) => {
      log.error({ err: error }, "a call failed");
      response.destroy();
    });
  });
});
server.keepAliveTimeout = 600_000;

/** Holds money for a call, forwards it, and charges it before its end is given. */
async function serve(request: IncomingMessage, response: ServerResponse, body: Buffer): Promise<void> {
  const asked: unknown = JSON.parse(body.toString());
  const model = findModel(catalog.current(), String(member(asked, "model")));
  const caller = callerOf(request.headers.authorization?.slice("Bearer ".length) ?? "", "127.0.0.1");
  const rid = createRid();
  const startedAtMs = Date.now();
  const hold = await admitAtPrice(quota, caller, { rid, model: model.id, estimateNanos, traceparent: "" });
  const call = beginLiveCall({
    generation: quota.generation(),
    rid,
    endpoint,
    accountId: hold.accountId,
    keyId: hold.keyId,
    holdSecret: hold.holdSecret,
    offered: model,
    model,
    isStream: member(asked, "stream") === true,
    requested: { inputTokens: 0, units: {}, priceFields: {} },
    heldNanos: hold.heldNanos,
    startedAtMs,
  });
  call.upstream = "openai-chat";
  call.upstreamModel = model.id;
  const handler = call.isStream ? streamOf(call, response) : wholeOf(call, response);
  pool.dispatch({ method: "POST", path: endpoint, headers: withoutConnection(request.headers), body }, handler);
}

function charge(call: LiveCall): void {
  call.httpStatus = 200;
  settle(settling, call, EndCause.COMPLETE);
  const { rid, accountId: account, keyId: key, upstream } = call;
  const chargedNanos = call.chargedNanos.toString();
  const fields = { rid, endpoint, status: 200, durationMs: Date.now() - call.startedAtMs, account, key, upstream };
  infoPlain(log, { ...fields, model: call.model.id, chargedNanos }, "call");
}

function readJson(text: string, { tally }: LiveCall): void {
  const json: unknown = JSON.parse(text);
  const choices = member(json, "choices");
  for (const choice of Array.isArray(choices) ? choices : []) {
    const text = stringOf(member(member(choice, "message") ?? member(choice, "delta"), "content")) ?? "";
    tally.hasContent ||= text !== "";
    tally.contentTokens += estimateTokens(text);
  }
  tally.usage = readUsage(member(json, "usage")) ?? tally.usage;
}

type Handler = Dispatcher.DispatchHandler;

/** What both kinds of answers have in common: heads go on, errors break the connection. */
function headOf(response: ServerResponse): Handler {
  return {
    onRequestStart: () => undefined,
    onResponseStart: (_, status, headers) => void response.writeHead(status, withoutConnection(headers)),
    onResponseError: (_, error) => {
      log.error({ err: error }, "the upstream failed");
      response.destroy();
    },
  };
}

function wholeOf(call: LiveCall, response: ServerResponse): Handler {
  const parts: Buffer[] = [];
  return {
    ...headOf(response),
    onResponseData: (_, chunk) => void parts.push(chunk),
    onResponseEnd: () => {
      const [first] = parts;
      const body = first && parts.length === 1 ? first : Buffer.concat(parts);
      readJson(body.toString(), call);
      charge(call);
      response.end(body);
    },
  };
}

const eventEnd = "\n\n";

/** Events come whole from the bench's upstream, one or many to a chunk. */
function streamOf(call: LiveCall, response: ServerResponse): Handler {
  return {
    ...headOf(response),
    onResponseData: (controller, chunk) => {
      for (const event of chunk.toString().split(eventEnd)) {
        if (event.startsWith("data: {")) readJson(event.slice("data: ".length), call);
      }
      if (!response.write(chunk)) {
        controller.pause();
        response.once("drain", () => controller.resume());
      }
      guardStream(settling, call);
    },
    onResponseEnd: () => {
      charge(call);
      response.end();
    },
  };
}

await until("auth-quota answers", async () => quota.isConnected(), readyTimeoutMs);
announce(server);
await stopSignal();
server.closeAllConnections();
await publisher.drain(drainMs);
