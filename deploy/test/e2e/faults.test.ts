import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Behaviour } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { bodyOf, errorOf, makeCall, type Side, sides } from "./ask.ts";
import { checkCharge } from "./charge.ts";
import { checkRefusal, type Refusal } from "./refusal.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld();
const { relayUrl, fake } = world;

const temporarilyUnavailable = "The model service is temporarily unavailable, please try again later";
const unreachable = { status: 500, message: temporarilyUnavailable, code: "server_error" };
const timedOut = { status: 504, message: temporarilyUnavailable, code: "server_error" };
const accountProblem = {
  status: 503,
  message: temporarilyUnavailable,
  code: "service_unavailable",
  retryAfter: "60",
};
const unavailable = { ...accountProblem, retryAfter: "5" };
const rateLimited = {
  status: 429,
  message: "The model service is temporarily rate limited, please retry after 60 seconds",
  code: "rate_limit_exceeded",
  retryAfter: "60",
};

const overloaded = ({ format }: Side): Refusal =>
  format === "B" ? { status: 529, message: "Overloaded", code: "", retryAfter: "5" } : unavailable;

const invalid = ({ format }: Side): Refusal => ({
  status: 502,
  message:
    format === "B"
      ? "The model service returned an error (HTTP 502), please try again later"
      : "The model service returned an invalid response, please try again later",
  code: "server_error",
});

type Case = {
  row: string;
  model?: string;
  behaviour?: Behaviour;
  wanted: Refusal | ((side: Side) => Refusal);
  endCause: EndCause;
  isStream?: boolean;
};

const { UPSTREAM_CUT, UPSTREAM_ERROR, UPSTREAM_TIMEOUT, CLIENT_GONE } = EndCause;
const page = { isHtml: true };
const insides = "Organisation org-12345678 of sk-proj-abcdef123456 at https://internal.example/v1 owes money.";

const cases: Case[] = [
  {
    row: "API spec, Cases: Cannot connect to upstream | 500 | `The model service is temporarily unavailable, please try again later`",
    model: "unreachable-model",
    wanted: unreachable,
    endCause: UPSTREAM_CUT,
  },
  {
    row: "API spec, Cases: Cannot connect to upstream: the connection is reset before the head",
    behaviour: { fault: { kind: "reset-before-headers" } },
    wanted: unreachable,
    endCause: UPSTREAM_CUT,
  },
  {
    row: "Upstream timeout: nothing comes before the first byte timeout",
    model: "hasty-model",
    behaviour: { fault: { kind: "silence" } },
    wanted: timedOut,
    endCause: UPSTREAM_TIMEOUT,
  },
  ...[504, 408].map((status) => ({
    row: `Upstream timeout told by the upstream, ${status}`,
    behaviour: { status },
    wanted: timedOut,
    endCause: UPSTREAM_TIMEOUT,
  })),
  ...[401, 402, 403].map((status) => ({
    row: `API spec, Cases: Upstream temporarily unavailable, or problem with the service's account at upstream | 503 |: ${status}, Retry-After 60, nothing of the account told`,
    behaviour: { status, error: { message: insides } },
    wanted: accountProblem,
    endCause: UPSTREAM_ERROR,
  })),
  {
    row: "API spec, Cases: Upstream rate limit exceeded | 429 | `The model service is temporarily rate limited, please retry after 60 seconds`; API spec, Limits: Upstream rate limit | 429 with `Retry-After: 60`, whatever the upstream says",
    behaviour: { status: 429, retryAfterSeconds: 3 },
    wanted: rateLimited,
    endCause: UPSTREAM_ERROR,
  },
  {
    row: "API spec, Cases: Upstream temporarily unavailable, or problem with the service's account at upstream | 503 | `The model service is temporarily unavailable, please try again later`",
    behaviour: { status: 503, error: { message: insides } },
    wanted: unavailable,
    endCause: UPSTREAM_ERROR,
  },
  {
    row: "API spec, Cases: Upstream overloaded | 529 | `Overloaded` (Format B)",
    behaviour: { status: 529 },
    wanted: overloaded,
    endCause: UPSTREAM_ERROR,
  },
  {
    row: "API spec, Cases: Upstream returned non-JSON | 502 | Format B: `The model service returned an error (HTTP 502), please try again later`; Format A: `The model service returned an invalid response, please try again later` (status 200)",
    behaviour: page,
    wanted: invalid,
    endCause: UPSTREAM_ERROR,
  },
  {
    row: "API spec, Cases: Upstream returned non-JSON with status 502",
    behaviour: { ...page, status: 502 },
    wanted: invalid,
    endCause: UPSTREAM_ERROR,
  },
  {
    row: "API spec, Cases: Upstream returned non-JSON with status 404",
    behaviour: { ...page, status: 404 },
    wanted: invalid,
    endCause: UPSTREAM_ERROR,
  },
  {
    row: "Upstream returned what the relay cannot read: in an encoding that nobody knows",
    behaviour: { headers: { "content-encoding": "compress" } },
    wanted: invalid,
    endCause: UPSTREAM_ERROR,
  },
  {
    row: "Upstream returned half of a whole answer and closed in good order",
    behaviour: { fault: { kind: "end-early" } },
    wanted: invalid,
    endCause: UPSTREAM_ERROR,
    isStream: false,
  },
  {
    row: "the connection is cut within a whole answer, of which the caller has seen nothing",
    behaviour: { fault: { kind: "cut" } },
    wanted: unreachable,
    endCause: UPSTREAM_CUT,
    isStream: false,
  },
  {
    row: "the upstream stalls within a whole answer, of which the caller has seen nothing",
    model: "hasty-model",
    behaviour: { fault: { kind: "stall" } },
    wanted: timedOut,
    endCause: UPSTREAM_TIMEOUT,
    isStream: false,
  },
];

// Every test has a customer of its own and tells the upstream how to behave in its own request.
const atOnce = { concurrency: 4 };

describe("failed before any content: nothing charged, one ledger line of 0", atOnce, () => {
  for (const { row, model, behaviour, wanted, endCause, isStream } of cases) {
    for (const side of sides) {
      for (const streamed of isStream === undefined ? [false, true] : [isStream]) {
        test(`${row} (${side.path}, ${streamed ? "streamed" : "whole"})`, async () => {
          const customer = await world.createCustomer();
          const call = { side, isStream: streamed, ...(model && { model }), ...(behaviour && { behaviour }) };
          const reply = await makeCall(relayUrl, customer.secret, call);
          checkRefusal(side, reply, typeof wanted === "function" ? wanted(side) : wanted);
          const line = await checkCharge(world, customer, { rid: reply.rid, endCause, charge: "nothing" });
          assert.equal(line.usage.httpStatus, reply.status);
        });
      }
    }
  }
});

describe("upstream wording passes, with the upstream's code and type", atOnce, () => {
  const worded: { status: number; seen: number; error: NonNullable<Behaviour["error"]>; code: string }[] = [
    {
      status: 400,
      seen: 400,
      error: { message: "Too long: 9 > 8.", code: "context_length_exceeded", param: "messages" },
      code: "context_length_exceeded",
    },
    { status: 404, seen: 400, error: { message: "No such thing.", code: "not_here" }, code: "not_here" },
    { status: 413, seen: 400, error: { message: "Too large.", code: null }, code: "" },
    { status: 422, seen: 400, error: { message: "Cannot $& process $1.", code: "odd" }, code: "odd" },
    { status: 500, seen: 500, error: { message: "It broke.", code: null }, code: "server_error" },
  ];
  const spec: Record<number, string> = {
    400: "API spec, Cases: Input longer than model context length | 400 | Upstream wording, and other refusals of the upstream; API spec, Errors: 400 | upstream value (for example `context_length_exceeded`)",
    500: "API spec, Cases: Upstream returned an error | 500 | Upstream wording",
  };
  for (const { status, seen, error, code } of worded) {
    for (const side of sides) {
      for (const isStream of [false, true]) {
        const how = `${side.path}, ${isStream ? "streamed" : "whole"}`;
        test(`${spec[seen]}: ${status} is ${seen} with its words (${how})`, async () => {
          const customer = await world.createCustomer();
          const behaviour = { status, error: { ...error, type: "its_own_type" } };
          const reply = await makeCall(relayUrl, customer.secret, { side, isStream, behaviour });
          assert.equal(reply.status, seen);
          const told = errorOf(side, reply);
          assert.equal(told.message, error.message);
          if (side.format === "A") {
            const { type, param } = told;
            assert.deepEqual([type, param, told.code], ["its_own_type", error.param ?? "", code]);
          } else assert.equal(told.type, seen === 400 ? "invalid_request_error" : "api_error");
          assert.equal(reply.headers.get("retry-after"), null);
          await checkCharge(world, customer, { rid: reply.rid, endCause: UPSTREAM_ERROR, charge: "nothing" });
        });
      }
    }
  }

  test("the service's credential, hosts and organisation are hidden in it", async () => {
    for (const side of sides) {
      const customer = await world.createCustomer();
      const message = `${insides} Ask ${new URL(fake.url).host}.`;
      const reply = await makeCall(relayUrl, customer.secret, { side, behaviour: { status: 400, error: { message } } });
      const told = errorOf(side, reply).message;
      for (const inside of ["org-12345678", "sk-proj", "internal.example", fake.url, String(fake.port)]) {
        assert.ok(!told.includes(inside), told);
      }
      assert.match(told, /owes money/);
      await world.untilBooked(customer.accountId, reply.rid);
    }
  });
});

describe("client gone → upstream cancelled; what was sent to it is charged, before the first byte as after it", () => {
  for (const side of sides) {
    for (const isStream of [false, true]) {
      for (const kind of ["silence", ...(isStream ? [] : ["stall" as const])] as const) {
        const when = kind === "silence" ? "before the first byte" : "while the relay reads a whole answer";
        test(`the caller leaves ${when} (${side.path}, ${isStream ? "streamed" : "whole"})`, async () => {
          const customer = await world.createCustomer();
          const leaving = new AbortController();
          const sentBody = bodyOf({
            side,
            isStream,
            behaviour: { fault: { kind } },
            prompt: `Wait, ${customer.keyId}.`,
          });
          const asking = fetch(`${relayUrl}${side.path}`, {
            method: "POST",
            headers: side.headers(customer.secret),
            body: sentBody,
            signal: leaving.signal,
          });
          const left = assert.rejects(asking, { name: "AbortError" });
          const arrived = () =>
            fake.received.find(({ rawBody }) => rawBody.includes(customer.keyId))?.headers["x-request-id"];
          const rid = String(await until("the upstream got the call", arrived));
          assert.equal((await world.holdsOf(customer.accountId)).openHolds, 1n);
          leaving.abort();
          await left;
          await checkCharge(world, customer, { rid, endCause: CLIENT_GONE, charge: { sentBody, sentText: "" } });
          const cancelled = () => fake.truth.find((truth) => truth.rid === rid)?.ended === "client-gone";
          await until("the upstream was cancelled", cancelled);
        });
      }
    }
  }
});

for (const compressing of [{ isGzip: true }, { isGzipUnasked: true }]) {
  const when = compressing.isGzip ? "on request is not asked to" : "unasked is inflated";
  test(`an upstream that compresses ${when}: the answer is metered as it passes`, async () => {
    for (const side of sides) {
      for (const isStream of [false, true]) {
        const customer = await world.createCustomer();
        const behaviour = { text: "plain", ...compressing, usage: { inputTokens: 3, outputTokens: 4 } };
        const reply = await makeCall(relayUrl, customer.secret, { side, isStream, behaviour });
        assert.match(reply.text, /plain/);
        const charge = { provider: { inputTokens: 3n, outputTokens: 4n } };
        await checkCharge(world, customer, { rid: reply.rid, endCause: EndCause.COMPLETE, charge });
      }
    }
  });
}

test("an upstream that comes back is used again at once", async () => {
  const customer = await world.createCustomer();
  const [side] = sides;
  assert.ok(side);
  await fake.close();
  const away = await makeCall(relayUrl, customer.secret, { side });
  checkRefusal(side, away, unreachable);
  await fake.reopen();
  const back = await makeCall(relayUrl, customer.secret, { side });
  assert.equal(back.status, 200, back.text);
  await world.untilSettled(customer.accountId, 2);
});
