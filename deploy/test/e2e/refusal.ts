import { typesByStatus } from "../../../services/relay/testing/spec-errors.ts";
import assert from "node:assert/strict";
import { errorOf, type Reply, type Side } from "./ask.ts";
import type { Customer, World } from "./world.ts";

/** What a refusal must look like; the API spec's table Cases has the status and the message. */
export type Refusal = {
  status: number;
  message: string;
  /** `error.code` in Format A. */
  code: string;
  /** Header Retry-After; left out: there must be none. */
  retryAfter?: string;
  /** Header x-should-retry; left out: there must be none. */
  shouldRetry?: string;
};

/** Checks an answer against a row of the API spec: status, body shape, type or code, message and retry headers. */
export function checkRefusal(side: Side, reply: Reply, wanted: Refusal): void {
  assert.equal(reply.status, wanted.status, reply.text);
  const { message, type, code } = errorOf(side, reply);
  assert.equal(message, wanted.message);
  if (side.format === "A") {
    assert.equal(type, "api_error");
    assert.equal(code, wanted.code);
  } else assert.equal(type, typesByStatus[wanted.status] ?? "api_error");
  assert.equal(reply.headers.get("retry-after"), wanted.retryAfter ?? null);
  assert.equal(reply.headers.get("x-should-retry"), wanted.shouldRetry ?? null);
}

/**
 * Runs `refused` and checks that nothing came of it: no ledger line, no money moved or held, no upstream called.
 */
export async function checkUntouched(world: World, { accountId }: Customer, refused: () => Promise<void>) {
  const before = { money: await world.moneyOf(accountId), lines: await world.ledgerOf(accountId) };
  const received = world.fake.received.length;
  await refused();
  assert.deepEqual(await world.moneyOf(accountId), before.money);
  assert.equal(before.money.openHolds, 0n, "no hold was open before");
  assert.deepEqual(await world.ledgerOf(accountId), before.lines);
  assert.equal(world.fake.received.length, received, "the upstream was not called");
}

const conversationPaths = "/v1/chat/completions, /v1/responses, /v1/messages, /v1/responses/compact";

/** The rows of the table Cases that the relay decides by itself. */
export const rows = {
  keyInvalid: { status: 401, message: "Invalid API key", code: "" },
  keyLimit: { status: 403, message: "This API key has reached its spending limit", code: "insufficient_quota" },
  balance: { status: 403, message: "Insufficient balance", code: "insufficient_quota" },
  invalidJson: { status: 400, message: "Invalid request: invalid JSON request body", code: "invalid_request" },
  tooLarge: {
    status: 400,
    message: "Invalid request: request body exceeds 128 MB: request body too large",
    code: "invalid_request",
  },
  accountRate: {
    status: 429,
    message: "Rate limit exceeded for your account, please retry after 60 seconds",
    code: "rate_limit_exceeded",
    retryAfter: "60",
  },
  ipRate: {
    status: 429,
    message:
      "Too many requests from your IP address, please retry after the number of seconds in the Retry-After header",
    code: "rate_limit_exceeded",
  },
  notProcessable: { status: 403, message: "The request could not be completed", code: "invalid_request" },
  serviceUnavailable: {
    status: 503,
    message: "The service is temporarily unavailable, please try again later",
    code: "service_unavailable",
    retryAfter: "5",
  },
  unknownModel: (model: string) => ({
    status: 503,
    message: `The model ${model} does not exist or is not available`,
    code: "model_not_found",
    shouldRetry: "false",
  }),
  /** `test-model` at the path of something else than a conversation. */
  wrongEndpoint: (path: string) => ({
    status: 400,
    message: `The model test-model is not served at ${path} but at ${conversationPaths}`,
    code: "invalid_request",
  }),
  fieldRequired: (field: string) => ({
    status: 400,
    message: `field ${field} is required`,
    code: "invalid_request",
  }),
} satisfies Record<string, Refusal | ((detail: string) => Refusal)>;
