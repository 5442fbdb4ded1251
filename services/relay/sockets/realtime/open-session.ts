import type { IncomingHttpHeaders } from "node:http";
import { createRid } from "#shared/money/rid.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import type { Relay } from "../../call.ts";
import { chooseRoutes, findModel, type Route } from "../../catalog/choose.ts";
import type { Model } from "../../catalog/models.ts";
import { callerOf, newCaller, type Caller } from "../../charge/admit.ts";
import { dialects } from "../../dialects/index.ts";
import { readClientEvent } from "../../dialects/openai-realtime/client-event.ts";
import { CallFailure } from "../../failures.ts";
import { refuseEndpoint } from "../../http/endpoints.ts";
import { readKey, refusalOfBody } from "../../http/read.ts";
import { isClientSecret, openClientSecret, type ClientSecret } from "./client-secret.ts";
import { connectUpstream } from "./connect-upstream.ts";
import { HeldAhead } from "./held-ahead.ts";
import { rulesOf } from "./rules.ts";
import type { SessionStart } from "./session.ts";
import { SessionContext } from "./session-context.ts";
import { SessionTime } from "./session-time.ts";

const dialect = dialects["openai-realtime"];
const protocolKey = "openai-insecure-api-key.";

/** The key of a handshake: pages cannot send headers, and name it among the protocols that they speak. */
function keyOfHandshake(headers: IncomingHttpHeaders): string {
  const protocols = (headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());
  const named = protocols.find((name) => name.startsWith(protocolKey))?.slice(protocolKey.length);
  return named ? named : readKey(headers, false);
}

/** The upstreams by whose credentials client secrets may be sealed. */
function* sealersOf(models: Iterable<Model>): Generator<Upstream> {
  const seen = new Set<string>();
  for (const model of models) {
    for (const { upstream } of chooseRoutes(model, dialect.name)) {
      if (!seen.has(upstream.id)) yield upstream;
      seen.add(upstream.id);
    }
  }
}

/** Who opens a session, and by which secret, where it is not a key. */
export type SessionCaller = { caller: Caller; secret: ClientSecret | undefined };

/** Throws `key_invalid`. */
export function sessionCallerOf(headers: IncomingHttpHeaders, ip: string, { catalog }: Relay): SessionCaller {
  const key = keyOfHandshake(headers);
  if (!isClientSecret(key)) return { caller: callerOf(key, ip), secret: undefined };
  const secret = openClientSecret(key, sealersOf(catalog.current().models.values()), Date.now() / 1_000);
  if (!secret) throw new CallFailure({ name: "key_invalid" });
  const { keyHash } = secret;
  return { caller: newCaller(keyHash, ip), secret };
}

const invalid = (detail: string): CallFailure => new CallFailure({ name: "field_invalid", detail });

/** The model that a session is asked for. Throws a CallFailure. */
function modelNameOf(url: string, secret: ClientSecret | undefined): string {
  const { searchParams: query } = new URL(url, "http://relay");
  // Both belong to calls over WebRTC and SIP, and to sessions that only write down what they hear.
  if (query.has("call_id")) throw invalid("field call_id cannot be used: calls over WebRTC and SIP are not supported");
  if (query.has("intent")) throw invalid("field intent cannot be used: open a session of a model");
  const name = query.get("model") ?? secret?.model ?? "";
  if (name === "") throw new CallFailure({ name: "field_required", detail: "model" });
  if (secret && name !== secret.model) throw invalid(`field model must be ${secret.model}, as in the client secret`);
  return name;
}

/** The model of a name, and where it has sessions. Rejects with `model_unavailable` or `wrong_endpoint`. */
export async function routesOf(
  name: string,
  allowed: readonly string[],
  { catalog, videos }: Relay,
): Promise<{ model: Model; routes: Route[] }> {
  const model = findModel(catalog.current(), name);
  const mayUse = allowed.length === 0 || allowed.includes(name);
  if (!mayUse) throw new CallFailure({ name: "model_unavailable", detail: name });
  const routes = chooseRoutes(model, dialect.name);
  if (routes.length > 0) return { model, routes };
  const offersVideos = videos.tasks !== undefined;
  return refuseEndpoint({ model, path: dialect.path, offersVideos, checkKey: async () => ({ models: [] }) as never });
}

export type SessionRequest = {
  url: string;
  headers: IncomingHttpHeaders;
  ip: string;
  isGone: () => boolean;
  allowedModels: readonly string[];
};

/**
 * Prepares a session whose caller is known: holds its first response and connects to the provider. Throws the
 * CallFailure that the caller is told over HTTP; then nothing is held.
 */
export async function startSession(
  { url, headers, ip, isGone, allowedModels }: SessionRequest,
  { caller, secret }: SessionCaller,
  relay: Relay,
): Promise<SessionStart> {
  const { model, routes } = await routesOf(modelNameOf(url, secret), allowedModels, relay);
  const problem = relay.settling.spool.problem();
  if (problem !== undefined) throw new CallFailure({ name: "service_unavailable", cause: problem });
  const rid = createRid();
  const context = new SessionContext();
  const [first] = routes;
  if (!first) throw new CallFailure({ name: "model_unavailable", detail: model.id });
  const isTimed = SessionTime.isPriced(model);
  const next = () => (isTimed ? SessionTime.firstUnits() : context.nextResponse(model));
  const heldFor = { caller: { ...caller, isAuthorized: true }, model, route: first, next };
  const ahead = new HeldAhead(relay, heldFor);
  try {
    await ahead.prepare();
    const upstream = await connectUpstream(routes, { rid, accountId: caller.accountId, headers, isGone }, relay);
    ahead.moveTo(upstream.route);
    const start = { rid, ip, caller: heldFor.caller, allowedModels, model, upstream, ahead, context };
    if (!secret) return { ...start, opening: undefined };
    const event = { type: "session.update", session: { type: "realtime", ...secret.session } };
    try {
      return { ...start, opening: readClientEvent(event, rulesOf(start, relay)) };
    } catch (thrown) {
      upstream.webSocket.terminate();
      relay.health.leave(upstream.place);
      throw refusalOfBody(thrown);
    }
  } catch (thrown) {
    ahead.end();
    throw thrown;
  }
}

/** Gives back what a session has that did not begin. */
export function dropSession({ upstream, ahead }: SessionStart, { health }: Relay): void {
  upstream.webSocket.terminate();
  health.leave(upstream.place);
  ahead.end();
}
