import type { IncomingMessage, ServerResponse } from "node:http";
import { createRid } from "#shared/money/rid.ts";
import { failureOf, type Relay } from "../../call.ts";
import { beginTimes } from "../../call-times.ts";
import { authorize, callerOf, type Caller } from "../../charge/admit.ts";
import { dialects } from "../../dialects/index.ts";
import { readSession } from "../../dialects/openai-realtime/client-event.ts";
import { RequestError } from "../../dialects/request-error.ts";
import { eventJson } from "../../dialects/sse.ts";
import { CallFailure, type Failure } from "../../failures.ts";
import { clientSecretsPath } from "../../http/paths.ts";
import { maxModelCharacters, readKey, refusalOfBody } from "../../http/read.ts";
import { respondFailure, respondReply } from "../../http/respond.ts";
import { takeBody } from "../../http/take-body.ts";
import { reportCall } from "../../report/report-call.ts";
import { readExpiry, sealClientSecret } from "./client-secret.ts";
import { routesOf } from "./open-session.ts";
import { transcriberAt } from "./transcripts.ts";

const dialect = dialects["openai-realtime"];
const maxBodyBytes = 65_536;

type HttpExchange = { request: IncomingMessage; response: ServerResponse; ip: string };
type Json = Record<string, unknown>;

function readRequest(body: Buffer): { given: Json; session: Json; model: string } {
  if (body.length > maxBodyBytes) throw new RequestError("field session is too large for a client secret");
  const given = eventJson(body.length === 0 ? "{}" : body.toString());
  const isObject = (value: unknown): value is Json =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isObject(given)) throw new CallFailure({ name: "invalid_json", cause: "no object" });
  const { session } = given;
  if (!isObject(session)) throw new CallFailure({ name: "field_required", detail: "session" });
  const { model } = session;
  if (model === undefined) throw new CallFailure({ name: "field_required", detail: "session.model" });
  if (typeof model !== "string" || model.length > maxModelCharacters) {
    throw new RequestError("field session.model must be a string");
  }
  return { given, session, model };
}

/** Makes a client secret of the caller's key. Throws a CallFailure or RequestError; undefined when the caller left. */
async function makeSecret(
  { request, response, caller }: Omit<HttpExchange, "ip"> & { caller: Caller },
  rid: string,
  relay: Relay,
): Promise<object | void> {
  const body = await takeBody({ request, response, caller }, relay);
  if (!body) return undefined;
  const { models: allowedModels } = await authorize(relay, caller);
  const { given, session, model: name } = readRequest(body);
  const { model, routes } = await routesOf(name, allowedModels, relay);
  const [route] = routes;
  if (!route) throw new CallFailure({ name: "model_unavailable", detail: name });
  const { upstream } = route;
  const transcriberOf = (transcriber: string): string | undefined =>
    allowedModels.length === 0 || allowedModels.includes(transcriber)
      ? transcriberAt(relay.catalog.current().models.get(transcriber), upstream.name)
      : undefined;
  const sharesPrompts = model.sharedState?.has("prompt") ?? false;
  const sharesVoices = model.sharedState?.has("voice") ?? false;
  readSession(session, { model: name, upstreamModel: route.model, transcriberOf, sharesPrompts, sharesVoices });
  const expiresAtSeconds = Math.floor(Date.now() / 1_000) + readExpiry(given["expires_after"]);
  const { keyHash } = caller;
  const value = sealClientSecret({ keyHash, model: name, expiresAtSeconds, session }, upstream);
  const shown = { ...session, type: "realtime", object: "realtime.session", id: `sess_${rid.replaceAll("-", "")}` };
  return { value, expires_at: expiresAtSeconds, session: shown };
}

/** Answers POST /v1/realtime/client_secrets. Nothing is charged, and no provider is asked. */
export async function answerClientSecret(answering: HttpExchange, relay: Relay): Promise<void> {
  const rid = createRid();
  const times = beginTimes(performance.now());
  const startedAtMs = Date.now();
  const { request, response, ip } = answering;
  let failure: Failure | undefined;
  let caller: Caller | undefined;
  try {
    caller = callerOf(readKey(request.headers, false), ip);
    const secret = await makeSecret({ request, response, caller }, rid, relay);
    if (secret) respondReply(response, rid, Buffer.from(JSON.stringify(secret)));
  } catch (thrown) {
    failure = failureOf(refusalOfBody(thrown));
    respondFailure(response, { rid, failure, dialect });
  } finally {
    const what = { rid, startedAtMs, times, trace: undefined, call: undefined, method: "POST" };
    reportCall({ ...what, endpoint: clientSecretsPath, response, ip, failure, caller }, relay);
  }
}
