import { createHash } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Registry } from "prom-client";
import {
  EndCause,
  RecordKind,
  UsageRecordedSchema,
  UsageSchema,
  UsageSource,
  type UsageRecorded,
} from "#proto/usage/v1/usage_pb.ts";
import { SubmitRequestSchema, type SubmitRequest } from "#proto/video/v1/video_pb.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { createLog } from "#shared/process/log.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { createRid } from "#shared/money/rid.ts";
import type { RequestProvider, ProviderResult } from "../providers/request.ts";
import type { LiveUpstreams } from "../catalog.ts";
import { createMetrics } from "../metrics.ts";
import { createSlots, defaultSlotLimits } from "../submission/slots.ts";
import type { SubmitDeps } from "../submission/submit.ts";

/** Fields to set otherwise than usual. */
export type SubmissionFields = { rid?: string; account?: string; key?: string; prompt?: string; upstreams?: string[] };

/** What a charge of 0.80 USD looks like when the relay sends it: 8 seconds at 0.10 USD. */
export function makeCharge(given: Partial<Omit<UsageRecorded, "$typeName" | "$unknown">> = {}) {
  return create(UsageRecordedSchema, {
    rid: createRid(),
    kind: RecordKind.FINAL,
    accountId: "acct_test",
    keyId: "key_test",
    endpoint: "/v1/videos",
    modelRequested: "demo-video",
    usage: create(UsageSchema, { mediaMs: 8_000n }),
    unitPriceNanos: create(UsageSchema, { mediaMs: 100_000_000_000n }),
    priceVersion: "demo-1",
    costNanos: 800_000_000n,
    heldNanos: 800_000_000n,
    endCause: EndCause.COMPLETE,
    usageSource: UsageSource.REQUEST,
    startedAt: timestampFromMs(Date.now()),
    httpStatus: 200,
    ...given,
  });
}

/** A submission of 8 seconds to the upstream "first", unless said otherwise. */
export function makeSubmission(given: SubmissionFields = {}): SubmitRequest {
  const { prompt = "a cat in the rain", upstreams = ["first"] } = given;
  return create(SubmitRequestSchema, {
    charge: makeCharge({ ...(given.rid && { rid: given.rid }), ...(given.account && { accountId: given.account }) }),
    routes: upstreams.map((upstream) => ({ upstream, model: `${upstream}-model`, upstreamCostNanos: 400_000_000n })),
    prompt,
    seconds: 8,
    size: "1280x720",
    idempotencyKey: given.key ?? "",
    requestHash: createHash("sha256").update(prompt).digest(),
    deadlineSeconds: 600,
  });
}

function makeUpstream(name: string): Upstream {
  return {
    id: name,
    name,
    baseUrl: new URL(`https://${name}.example/v1`),
    dialects: ["openai-videos"],
    credential: "secret-of-the-operator",
    headers: [],
    proxy: undefined,
    tls: undefined,
    connectTimeoutMs: 1_000,
    firstByteTimeoutMs: 1_000,
    idleTimeoutMs: 1_000,
    totalTimeoutMs: 1_000,
    onCallerGone: { action: "abort" },
    maxConcurrent: 10,
    hasResponsesSocket: false,
    openAfterFailures: 0,
    coolsDown: false,
  };
}

/** Upstreams that speak openai-videos; "third" is in no catalog. */
export const upstreams: LiveUpstreams = {
  current: () => new Map(["first", "second"].map((name) => [name, makeUpstream(name)])),
  isStale: () => false,
};

/** A question to a provider: which upstream, and the id of the call in its headers. */
type ReceivedRequest = { upstream: string; rid: string | undefined; headers: string[] };

/** Providers that answer as told. `questions` is the truth of what they were asked. */
export function scriptProviders(
  answer: (question: ReceivedRequest) => ProviderResult | Promise<ProviderResult>,
): RequestProvider & { questions: ReceivedRequest[] } {
  const questions: ReceivedRequest[] = [];
  const requestProvider: RequestProvider = async (upstream, { headers }) => {
    const at = headers.indexOf("x-request-id");
    const question = { upstream: upstream.name, rid: at === -1 ? undefined : headers[at + 1], headers };
    questions.push(question);
    return answer(question);
  };
  return Object.assign(requestProvider, { questions });
}

/** An answer with a status and, but for 200, an error. */
export function answerOf(
  status: number,
  body: unknown = { error: { message: "no", code: "some_code" } },
): ProviderResult {
  return { kind: "answer", answer: { status, body, retryAfterSeconds: status === 429 ? 7 : undefined } };
}

let accepted = 0;

/** A provider's yes, with an id of its own. */
export function yes(id = `video_at_provider_${(accepted += 1)}`): ProviderResult {
  return answerOf(200, { id, object: "video", model: "first-model", status: "queued", progress: 0 });
}

/** What submitting needs, as one process has it. `given` replaces parts. */
export function submittingOn(
  pool: Pool,
  requestProvider: RequestProvider,
  given: Partial<SubmitDeps> = {},
): SubmitDeps {
  return {
    pool,
    requestProvider,
    upstreams,
    metrics: createMetrics(new Registry()),
    log: createLog("test", "silent"),
    leaseMs: 20_000,
    firstPollMs: () => 5_000,
    slots: createSlots({ ...defaultSlotLimits, drainMs: 100 }),
    ...given,
  };
}
