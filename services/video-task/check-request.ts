import { toBinary } from "@bufbuild/protobuf";
import { RecordKind, UsageRecordedSchema, UsageSource, type UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import type { Reference, Route, SubmitRequest } from "#proto/video/v1/video_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import { costNanos, usageBuckets, type Units } from "#shared/money/pricing.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import type { Intent } from "./store/submissions.ts";
import { ridOfTaskId } from "./task.ts";

// Checks of what relays send. Each throws ServiceError `invalid_argument` that names the field and the rule.

const idPattern = /^[A-Za-z0-9_-]{1,64}$/;
const namePattern = /^[^\p{Cc}]{1,256}$/u;
const sizePattern = /^[1-9]\d{1,4}x[1-9]\d{1,4}$/;
const mediaTypePattern = /^[\w.+-]{1,64}\/[\w.+-]{1,64}$/;
const maxPromptCharacters = 32_000;
const maxKeyCharacters = 255;
const maxReferenceBytes = 10 * 1024 * 1024;
const maxSeconds = 3_600;
const maxDeadlineSeconds = 7 * 86_400;
const maxRoutes = 20;
const maxListed = 100;
const defaultListed = 20;

function refuse(problem: string): never {
  throw new ServiceError("invalid_argument", problem);
}

function demand(isFit: boolean, problem: string): void {
  if (!isFit) refuse(problem);
}

/** Checks the id of an account or key; `name` is the field. */
export function requireId(name: string, value: string): string {
  return idPattern.test(value) ? value : refuse(`${name} must be 1 to 64 letters, digits, - or _`);
}

/** Checks the id of a call. */
export function requireRid(value: string): string {
  return ridTimeMs(value) === undefined ? refuse("rid must be a UUIDv7 in lower case") : value;
}

/** The rid of a task's id. What is no id of ours is no task: `not_found`. */
export function requireTaskId(value: string): string {
  const rid = ridOfTaskId(value);
  if (rid === undefined) throw new ServiceError("not_found", "there is no such task");
  return rid;
}

/** Checks SHA-256 of a request. */
export function requireHash(value: Uint8Array): Uint8Array {
  return value.length === 32 ? value : refuse("request_hash must have 32 bytes");
}

/** Checks an idempotency key of 1 to 255 characters. */
export function requireIdempotencyKey(value: string): string {
  const isFit = value !== "" && isText(value, maxKeyCharacters);
  return isFit ? value : refuse(`idempotency_key must have 1 to ${maxKeyCharacters} characters, none of them NUL`);
}

/** Checks how many tasks a page shall have, 1 to 100; 0 is the usual 20. */
export function requireLimit(limit: number): number {
  if (limit < 0 || limit > maxListed) refuse(`limit must be 0 to ${maxListed}`);
  return limit || defaultListed;
}

// PostgreSQL cannot store NUL, and counts code points.
function isText(value: string, maxCharacters: number): boolean {
  return value.length <= 2 * maxCharacters && [...value].length <= maxCharacters && !value.includes("\0");
}

function requireName(name: string, value: string): string {
  return namePattern.test(value) ? value : refuse(`${name} must have 1 to 256 characters, none of them a control one`);
}

function checkRoutes(routes: Route[]): void {
  demand(routes.length >= 1 && routes.length <= maxRoutes, `routes must be 1 to ${maxRoutes}`);
  for (const { upstream, model, upstreamCostNanos = 0n } of routes) {
    requireName("routes.upstream", upstream);
    requireName("routes.model", model);
    demand(upstreamCostNanos >= 0n, "routes.upstream_cost_nanos must not be negative");
  }
}

function checkReference(reference: Reference | undefined): void {
  if (!reference) return;
  const bytes = reference.content.length;
  demand(bytes >= 1 && bytes <= maxReferenceBytes, `reference.content must have 1 to ${maxReferenceBytes} bytes`);
  demand(mediaTypePattern.test(reference.mediaType), "reference.media_type must be a media type");
}

// By the rules by which billing takes it: a charge that it cannot book would make the task free.
function checkCost({ usage, unitPriceNanos, ...charge }: UsageRecorded): void {
  const units: Units = usage ?? {};
  const prices: Units = unitPriceNanos ?? {};
  for (const bucket of usageBuckets) {
    const [used = 0n, price = 0n] = [units[bucket], prices[bucket]];
    demand(used >= 0n && price >= 0n, `charge: ${bucket} must not be negative`);
    demand(used === 0n || price > 0n, `charge: ${bucket} is used without a price`);
  }
  const isPositive = charge.costNanos > 0n && charge.costNanos <= maxAccountNanos && charge.heldNanos > 0n;
  demand(isPositive, "charge: cost_nanos and held_nanos must be above 0");
  demand(charge.costNanos === costNanos(units, prices), "charge: cost_nanos is not what units and prices give");
}

function checkCharge(charge: UsageRecorded | undefined): UsageRecorded {
  if (!charge) return refuse("charge is missing");
  requireRid(charge.rid);
  requireId("charge.account_id", charge.accountId);
  requireId("charge.key_id", charge.keyId);
  requireName("charge.endpoint", charge.endpoint);
  requireName("charge.model_requested", charge.modelRequested);
  demand(charge.kind === RecordKind.FINAL, "charge.kind must be final");
  demand(charge.usageSource === UsageSource.REQUEST, "charge.usage_source must be request");
  demand(charge.startedAt !== undefined, "charge.started_at is missing");
  // A number within the session of a relay that did not record it would look like a hole in the numbering.
  demand(charge.relaySession === "" && charge.sequence === 0n, "charge: relay_session and sequence must be empty");
  checkCost(charge);
  return charge;
}

/** A submission that is fit to be written down and sent. */
export type CheckedSubmission = { intent: Intent; charge: UsageRecorded };

/** Checks a submission; throws `invalid_argument` that names the field. */
export function checkSubmission(request: SubmitRequest): CheckedSubmission {
  const charge = checkCharge(request.charge);
  checkRoutes(request.routes);
  checkReference(request.reference);
  const isPrompt = request.prompt !== "" && isText(request.prompt, maxPromptCharacters);
  demand(isPrompt, `prompt must have 1 to ${maxPromptCharacters} characters, none of them NUL`);
  demand(request.seconds >= 1 && request.seconds <= maxSeconds, `seconds must be 1 to ${maxSeconds}`);
  demand(sizePattern.test(request.size), "size must be width and height, such as 1280x720");
  const secretBytes = request.holdSecret.length;
  demand(secretBytes === 0 || secretBytes === 16, "hold_secret must have 16 bytes");
  const isDeadline = request.deadlineSeconds >= 1 && request.deadlineSeconds <= maxDeadlineSeconds;
  demand(isDeadline, `deadline_seconds must be 1 to ${maxDeadlineSeconds}`);
  const idempotencyKey = request.idempotencyKey === "" ? undefined : requireIdempotencyKey(request.idempotencyKey);
  const intent = {
    rid: charge.rid,
    accountId: charge.accountId,
    idempotencyKey,
    requestHash: requireHash(request.requestHash),
    model: charge.modelRequested,
    prompt: request.prompt,
    seconds: request.seconds,
    size: request.size,
    deadlineSeconds: request.deadlineSeconds,
    charge: toBinary(UsageRecordedSchema, charge),
    upstream: request.routes[0]?.upstream ?? "",
  };
  return { intent, charge };
}
