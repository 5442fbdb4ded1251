import type { IncomingMessage, ServerResponse } from "node:http";
import { createRid } from "#shared/money/rid.ts";
import { authorize, callerOf, type Caller } from "../charge/admit.ts";
import type { Relay } from "../call.ts";
import type { Model } from "../catalog/models.ts";
import { dialects } from "../dialects/index.ts";
import { CallFailure, renderFailure, type Failure } from "../failures.ts";
import { readKey } from "../http/read.ts";
import { respondFailure, respondReply } from "../http/respond.ts";
import { noteRefusal } from "../report/refusals.ts";
import { entryFormatA, entryFormatB, listFormatA, listFormatB, wantsFormatB } from "./models.ts";

const modelsPath = "/v1/models";

type HttpExchange = { request: IncomingMessage; response: ServerResponse; ip: string };

/** The models of the catalog that a key may use, in the order of the catalog. Throws a CallFailure. */
async function offeredTo(caller: Caller, relay: Relay): Promise<Model[]> {
  const { models: allowed } = await authorize(relay, caller);
  const models = [...relay.catalog.current().models.values()];
  return allowed.length === 0 ? models : models.filter(({ id }) => allowed.includes(id));
}

/** Answers GET /v1/models or, for one id, GET /v1/models/{id}, in the format that the headers ask for. */
export async function answerModels(asking: HttpExchange, id: string | undefined, relay: Relay): Promise<void> {
  const { request, response, ip } = asking;
  const rid = createRid();
  const isFormatB = wantsFormatB(request.headers);
  const offersVideos = relay.videos.tasks !== undefined;
  // API spec, Errors: only /v1/messages has errors of Format B, whichever list was asked for.
  const dialect = dialects["openai-chat"];
  const entryOf = (models: Model[], wanted: string): string => {
    const model = models.find((offered) => offered.id === wanted);
    if (model) return JSON.stringify((isFormatB ? entryFormatB : entryFormatA)(model, offersVideos));
    // API spec, Not supported: 200 with an error body saying that the model does not exist.
    return dialect.writeError(renderFailure({ name: "model_unavailable", detail: wanted }, dialect.format));
  };
  let caller: Caller | undefined;
  try {
    caller = callerOf(readKey(request.headers, isFormatB), ip);
    const models = await offeredTo(caller, relay);
    const list = isFormatB ? listFormatB : listFormatA;
    const body = id === undefined ? JSON.stringify(list(models, offersVideos)) : entryOf(models, id);
    respondReply(response, rid, Buffer.from(body));
  } catch (thrown) {
    const isKnown = thrown instanceof CallFailure;
    if (!isKnown) relay.log.error({ rid, err: thrown }, "model list failed");
    const failure: Failure = isKnown ? thrown.failure : { name: "service_unavailable" };
    respondFailure(response, { rid, failure, dialect });
    const { statusCode: status } = response;
    noteRefusal(relay.refusals, caller, { rid, failure, status, endpoint: modelsPath });
  }
}
