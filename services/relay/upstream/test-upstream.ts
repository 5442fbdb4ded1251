import type { MessageInitShape } from "@bufbuild/protobuf";
import type { TestUpstreamResponseSchema } from "#proto/relay/v1/relay_pb.ts";
import type { Pools } from "#shared/catalog/pools.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { Logger } from "#shared/process/log.ts";
import { createRid } from "#shared/money/rid.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { Route } from "../catalog/choose.ts";
import type { Model } from "../catalog/models.ts";
import { createPreparation, type Prepared } from "../conversion/prepare.ts";
import { upstreamDialectFor } from "../dialects/conversions.ts";
import type { DialectName, Envelope } from "../dialects/dialect.ts";
import { dialects } from "../dialects/index.ts";
import { eventJson } from "../dialects/sse.ts";
import { CallFailure } from "../failures.ts";
import { readEnvelope } from "../http/read.ts";
import { withoutSecrets } from "./failure.ts";
import { inflated } from "./inflated.ts";
import { requestOf } from "./reach.ts";
import { createSendSignal, send, SendError, type SendSignal } from "./send.ts";
import { readWhole } from "./whole.ts";

type TestResult = MessageInitShape<typeof TestUpstreamResponseSchema>;

/** Makes one call to an upstream, of a model that runs there. */
export type UpstreamTest = (names: { upstream: string; model: string }) => Promise<TestResult>;

export type UpstreamTestDeps = { inForce: () => Catalog; pools: Pools; log: Logger };

const timeoutMs = 20_000;
const maxAnswerBytes = 1_048_576;
const words = "Say OK.";
const maxTokens = 16;

/** The smallest requests by the format of a caller who makes them; the first that leads to the upstream is taken. */
const requests: Partial<Record<DialectName, (model: Model) => object>> = {
  "openai-chat": ({ quirks }) => ({
    messages: [{ role: "user", content: words }],
    [quirks.has("max-tokens") ? "max_tokens" : "max_completion_tokens"]: maxTokens,
  }),
  "openai-responses": () => ({ input: words, max_output_tokens: maxTokens, store: false }),
  "anthropic-messages": () => ({ messages: [{ role: "user", content: words }], max_tokens: maxTokens }),
  "openai-completions": () => ({ prompt: words, max_tokens: maxTokens }),
  "openai-embeddings": () => ({ input: words }),
  "openai-moderations": () => ({ input: words }),
};

// By which a caller of format B says which version it speaks.
const callerHeaders = { "anthropic-version": "2023-06-01" };

type Trial = { route: Route; prepared: Prepared; envelope: Envelope };

/**
 * Tests upstreams one at a time, each by one call on the connections that callers' calls use, with the credential and
 * the headers of the catalog in force. There is no other try, circuits do not hear of it, and nobody is charged. Only
 * what is in force can be tested: a catalog of whoever asks could send any secret of this process anywhere.
 */
export function createUpstreamTest({ inForce, pools, log }: UpstreamTestDeps): UpstreamTest {
  let isTesting = false;
  return async ({ upstream, model }) => {
    const trial = prepareTrial(inForce(), upstream, model);
    if (isTesting) throw new ServiceError("unavailable", "another upstream is being tested");
    isTesting = true;
    const rid = createRid();
    try {
      const result = await makeCall(trial, rid, pools);
      log.info({ rid, upstream, model, status: result.status, problem: result.problem }, "upstream tested");
      return { ...result, dialect: trial.prepared.dialect.name };
    } finally {
      isTesting = false;
    }
  };
}

function prepareTrial(catalog: Catalog, upstream: string, id: string): Trial {
  const model = catalog.models.get(id);
  const route = model?.routes.find((one) => one.upstream.name === upstream);
  if (!model || !route) throw new ServiceError("not_found", "this model has no route to this upstream");
  const { dialects: spoken } = route.upstream;
  const names = (Object.keys(requests) as DialectName[]).filter((name) => model.dialects.has(name));
  const name =
    names.find((one) => spoken.includes(one)) ?? names.find((one) => upstreamDialectFor(one, spoken) !== undefined);
  const fields = name && requests[name]?.(model);
  if (!name || !fields) {
    throw new ServiceError("failed_precondition", "only models of text, embeddings and moderation are tested");
  }
  const dialect = dialects[name];
  try {
    const envelope = readEnvelope(Buffer.from(JSON.stringify({ model: id, ...fields })), dialect, callerHeaders);
    const preparation = createPreparation({
      envelope,
      dialect,
      model,
      inputTokens: maxTokens,
      share: () => ({ claim: () => true }),
    });
    return { route, envelope, prepared: preparation.for(route) };
  } catch (error) {
    if (!(error instanceof CallFailure)) throw error;
    throw new ServiceError("failed_precondition", "the request of the test cannot be made for this model", error);
  }
}

async function makeCall(trial: Trial, rid: string, pools: Pools): Promise<TestResult> {
  const signal = createSendSignal();
  const startedAt = performance.now();
  let timer: NodeJS.Timeout | undefined;
  const isOver = new Promise<TestResult>((resolve) => {
    timer = setTimeout(() => {
      signal.abort();
      resolve({ problem: `no whole answer within ${timeoutMs / 1_000} s` });
    }, timeoutMs);
  });
  const result = await Promise.race([askOnce(trial, rid, { pools, signal }), isOver]);
  clearTimeout(timer);
  return { ...result, durationMs: BigInt(Math.round(performance.now() - startedAt)) };
}

async function askOnce(
  trial: Trial,
  rid: string,
  { pools, signal }: { pools: Pools; signal: SendSignal },
): Promise<TestResult> {
  const { route, prepared, envelope } = trial;
  const { upstream } = route;
  let status = 0;
  try {
    const parts = { call: { rid }, envelope, callerHeaders, signal };
    const request = requestOf(parts, route, prepared, () => undefined);
    const answer = inflated(await send(pools.poolOf(upstream), request));
    status = answer.status;
    const body = eventJson((await readWhole(answer, maxAnswerBytes)).toString());
    return { status, ...(status === 200 ? readAnswer(body, trial) : { problem: wordingOf(body, trial) }) };
  } catch (error) {
    const isOfSending = error instanceof SendError || error instanceof CallFailure;
    if (!isOfSending) throw error;
    return { status, problem: withoutSecrets(causeOf(error), upstream) };
  }
}

function causeOf(error: SendError | CallFailure): string {
  if (error instanceof CallFailure) return "the answer is larger than an answer to this call can be";
  // A host with several addresses fails with an error without words, of one for each.
  const { cause } = error;
  const [first] = cause instanceof AggregateError ? (cause.errors as Error[]) : [];
  return error.message || first?.message || "no connection";
}

function readAnswer(body: unknown, { prepared, envelope }: Trial): TestResult {
  const tally = body === undefined ? undefined : prepared.dialect.readReply(body, envelope);
  if (!tally) return { problem: `the answer is none of ${prepared.dialect.name}` };
  const { usage, modelServed = "", isFailed } = tally;
  const problem = isFailed ? "the answer says that it failed" : usage ? "" : "the answer tells no usage";
  return { modelServed: modelServed.slice(0, 200), problem, ...(usage && { usage }) };
}

function wordingOf(body: unknown, { prepared, route }: Trial): string {
  const error = prepared.dialect.readError(body);
  if (!error) return "refused without an error of this format";
  const parts = [error.type, error.code, error.message].filter((part) => part !== undefined && part !== "");
  return withoutSecrets(parts.join(": "), route.upstream);
}
