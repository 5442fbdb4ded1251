import assert from "node:assert/strict";
import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:net";
import { describe, test } from "node:test";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { AccountStatus, KeyStatus } from "#proto/authquota/v1/authquota_pb.ts";
import { until } from "#shared/testing/until.ts";
import { ask, bodyOf, chat, errorOf, type Json, makeCall, messages, type Reply, type Side, sides } from "./ask.ts";
import { checkRefusal, checkUntouched, type Refusal, rows } from "./refusal.ts";
import { answeredWith } from "./retries.ts";
import { sharedWorld } from "./shared-world.ts";
import type { Customer } from "./world.ts";

const world = await sharedWorld();
const { relayUrl } = world;

/** Asks and checks that the answer is the row, and that nothing came of it. */
async function expectRefusal(side: Side, customer: Customer, asking: () => Promise<Reply>, wanted: Refusal) {
  await checkUntouched(world, customer, async () => checkRefusal(side, await asking(), wanted));
}

const askRaw = (side: Side, headers: Record<string, string>, body: string | Buffer = bodyOf({ side })) =>
  ask(`${relayUrl}${side.path}`, { headers, body });

describe("keys that are not good: API spec, Authentication: 6.", () => {
  const spoil: Record<string, (customer: Customer) => Promise<unknown>> = {
    stopped: ({ keyId }) => world.authQuota.updateKey({ keyId, status: KeyStatus.STOPPED }),
    expired: ({ keyId }) => world.authQuota.updateKey({ keyId, expiresAt: timestampFromMs(Date.now() - 1_000) }),
    deleted: ({ keyId }) => world.authQuota.deleteKey({ keyId }),
    "of a suspended account": ({ accountId }) =>
      world.authQuota.updateAccount({ accountId, status: AccountStatus.SUSPENDED }),
    "that has used up its spending limit": async ({ accountId, keyId, secret }) => {
      const behaviour = { usage: { inputTokens: 1_000, outputTokens: 1_000 } };
      const { rid } = await makeCall(relayUrl, secret, { side: chat, behaviour });
      await world.untilBooked(accountId, rid);
      await world.authQuota.updateKey({ keyId, limitNanos: 1_000n });
    },
  };
  const keyRow =
    "API spec, Cases: Key invalid, missing, stopped, expired, deleted or limit used up | 401 | `Invalid API key`";
  const attributes: Record<string, string> = {
    stopped: "status (active or stopped)",
    expired: "expiry",
    deleted: "deleted or not",
    "that has used up its spending limit": "remaining spending limit",
  };
  const named = (how: string): string => {
    const attribute = attributes[how];
    return attribute === undefined ? "" : `; API spec, Resources and their fields: **API key.** ${attribute}`;
  };
  for (const side of sides) {
    test(`a missing key (${side.path})`, async () => {
      const customer = await world.createCustomer();
      const { "x-api-key": _key, authorization: _authorization, ...headers } = side.headers(customer.secret);
      for (const wrong of [{}, { authorization: "" }, { authorization: "Bearer " }, { "x-api-key": "" }]) {
        await expectRefusal(side, customer, () => askRaw(side, { ...headers, ...wrong }), rows.keyInvalid);
      }
    });

    test(`a wrong key (${side.path})`, async () => {
      const customer = await world.createCustomer();
      const { secret } = customer;
      const wrong = [
        `${secret}x`,
        secret.slice(0, -1),
        secret.toUpperCase(),
        `sk-${"A".repeat(43)}`,
        "x".repeat(9_000),
      ];
      for (const key of wrong) {
        await expectRefusal(side, customer, () => askRaw(side, side.headers(key)), rows.keyInvalid);
      }
      const basic = { ...side.headers(secret), authorization: `Basic ${secret}`, "x-api-key": "" };
      await expectRefusal(side, customer, () => askRaw(side, basic), rows.keyInvalid);
    });

    for (const [how, change] of Object.entries(spoil)) {
      test(`HTTP 401, message \`Invalid API key\`, for a key ${how}${named(how)}; ${keyRow} (${side.path})`, async () => {
        const customer = await world.createCustomer();
        const works = await makeCall(relayUrl, customer.secret, { side });
        assert.equal(works.status, 200, "the key worked before");
        await world.untilBooked(customer.accountId, works.rid);
        await change(customer);
        await expectRefusal(side, customer, () => makeCall(relayUrl, customer.secret, { side }), rows.keyInvalid);
      });
    }
  }

  test("API spec, Authentication: 1. `x-api-key` works only on Format B endpoints: `/v1/messages`, and `/v1/models` when it returns the Format B list. All other endpoints use `Authorization`", async () => {
    const customer = await world.createCustomer();
    const headers = { "x-api-key": customer.secret, "provider-version": "2023-06-01" };
    await expectRefusal(chat, customer, () => askRaw(chat, headers), rows.keyInvalid);
    const list = { method: "GET", headers: { "x-api-key": customer.secret } };
    await expectRefusal(chat, customer, () => ask(`${relayUrl}/v1/models`, list), rows.keyInvalid);
    assert.equal((await ask(`${relayUrl}/v1/models`, { method: "GET", headers })).status, 200);
    const { status, rid } = await askRaw(messages, headers);
    assert.equal(status, 200);
    await world.untilBooked(customer.accountId, rid);
  });
});

describe("money", () => {
  for (const side of sides) {
    test(`API spec, Cases: Estimated price above remaining key limit | 403 | \`This API key has reached its spending limit\`; API spec, Authentication: 8. HTTP 403, message \`This API key has reached its spending limit\`; API spec, Limits: Per-key spending limit | estimated price above remaining: 403 (${side.path})`, async () => {
      const customer = await world.createCustomer({ key: { limitNanos: 5_000_000n } });
      await expectRefusal(side, customer, () => makeCall(relayUrl, customer.secret, { side }), rows.keyLimit);
    });

    test(`API spec, Cases: Insufficient balance | 403 | \`Insufficient balance\`; API spec, Authentication: 7. HTTP 403, message \`Insufficient balance\` (${side.path})`, async () => {
      for (const creditNanos of [0n, 1n, 5_000_000n]) {
        const customer = await world.createCustomer({ creditNanos });
        await expectRefusal(side, customer, () => makeCall(relayUrl, customer.secret, { side }), rows.balance);
      }
    });

    test(`${side.path}: a smaller output cap makes the same call affordable`, async () => {
      const customer = await world.createCustomer({ creditNanos: 5_000_000n });
      const reply = await makeCall(relayUrl, customer.secret, { side, more: { max_tokens: 10 } });
      assert.equal(reply.status, 200, reply.text);
      await world.untilBooked(customer.accountId, reply.rid);
    });
  }
});

describe("API spec, Cases: Wrong or unoffered model ID | 503 | `The model <model_id> does not exist or is not available` (code `model_not_found` in Format A), no Retry-After, x-should-retry false", () => {
  for (const side of sides) {
    test(`${side.path}: a model that is not in the catalog`, async () => {
      const customer = await world.createCustomer();
      for (const model of ["no-such-model", "Test-Model", "test-model ", "$&", '<b>&amp;"', "x".repeat(500)]) {
        const asking = () => makeCall(relayUrl, customer.secret, { side, model });
        await expectRefusal(side, customer, asking, rows.unknownModel(model));
      }
    });

    test(`${side.path}: a model that the key is not allowed to use`, async () => {
      const customer = await world.createCustomer({ key: { models: ["renamed-model"] } });
      const asking = () => makeCall(relayUrl, customer.secret, { side });
      await expectRefusal(side, customer, asking, rows.unknownModel("test-model"));
      const allowed = await makeCall(relayUrl, customer.secret, { side, model: "renamed-model" });
      assert.equal(allowed.status, 200);
      await world.untilBooked(customer.accountId, allowed.rid);
    });
  }
});

describe("bad bodies: 400", () => {
  const right = (side: Side): Json => JSON.parse(bodyOf({ side })) as Json;

  const notJson =
    "API spec, Cases: Body not valid JSON | 400 | `Invalid request: invalid JSON request body`; API spec, Endpoints: All paths need the `/v1` prefix; Bodies are JSON";
  for (const side of sides) {
    test(`${notJson} (${side.path})`, async () => {
      const customer = await world.createCustomer();
      const whole = bodyOf({ side });
      const wrong = [
        "",
        " ",
        "{",
        "}",
        "hello",
        "null",
        "[]",
        '"x"',
        "1",
        `${whole}x`,
        whole.slice(0, -1),
        `[${whole}]`,
      ];
      wrong.push(`${whole.slice(0, -1)},}`, whole.replace(":", " "), `{'model':1}`, `${whole}${whole}`, "\u0000");
      // The upstream might obey the other one of two.
      wrong.push(`{"model":"no-such-model",${whole.slice(1)}`);
      for (const body of wrong) {
        const asking = () => askRaw(side, side.headers(customer.secret), body);
        await expectRefusal(side, customer, asking, rows.invalidJson);
      }
    });

    for (const field of ["model", "messages", ...(side.format === "B" ? ["max_tokens"] : [])]) {
      test(`API spec, Cases: Required field missing | 400 | Text naming the field, such as \`field messages is required\`: ${field} (${side.path})`, async () => {
        const customer = await world.createCustomer();
        const { [field]: _missing, ...rest } = right(side);
        const wrong = [rest, { ...rest, [field]: null }, ...(field === "model" ? [{ ...rest, model: "" }] : [])];
        for (const body of wrong) {
          const asking = () => askRaw(side, side.headers(customer.secret), JSON.stringify(body));
          await expectRefusal(side, customer, asking, rows.fieldRequired(field));
        }
      });
    }

    test(`${side.path}: a field of the wrong type: text naming the field`, async () => {
      const customer = await world.createCustomer();
      for (const wrong of [{ model: 7 }, { model: ["test-model"] }, { messages: "hello" }, { messages: {} }]) {
        const body = JSON.stringify({ ...right(side), ...wrong });
        const [field = ""] = Object.keys(wrong);
        await checkUntouched(world, customer, async () => {
          const reply = await askRaw(side, side.headers(customer.secret), body);
          assert.equal(reply.status, 400);
          const { message, type, code } = errorOf(side, reply);
          assert.match(message, new RegExp(`^field ${field} must be`));
          assert.deepEqual(
            [type, code],
            side.format === "A" ? ["api_error", "invalid_request"] : ["invalid_request_error", undefined],
          );
        });
      }
    });

    test(`API spec, Cases: Body larger than 128 MB | 400 | \`Invalid request: request body exceeds 128 MB: request body too large\`, by its Content-Length (${side.path})`, async () => {
      const customer = await world.createCustomer();
      const headers = { ...side.headers(customer.secret), "content-length": String(128 * 1024 * 1024 + 1) };
      await expectRefusal(side, customer, () => upload(side, headers, 1_000), rows.tooLarge);
    });
  }

  test("API spec, Limits: Request body size | 128 MB; above it, 400, also of a body that was not announced", async () => {
    const customer = await world.createCustomer();
    const headers = { ...chat.headers(customer.secret), "transfer-encoding": "chunked" };
    await expectRefusal(chat, customer, () => upload(chat, headers, 128 * 1024 * 1024 + 1), rows.tooLarge);
  });

  test("API spec, Authentication: 2. Format B also requires the header `provider-version` whose value is a date string of the form `<YYYY-MM-DD>`: else 400 invalid_request_error", async () => {
    const customer = await world.createCustomer();
    const { "provider-version": _version, ...headers } = messages.headers(customer.secret);
    const wrong: Record<string, string>[] = ["", "latest", "2023-6-1", "2023-06-01T00:00:00Z", "20230601"].map(
      (version) => ({ "provider-version": version }),
    );
    for (const version of [{}, ...wrong, { "anthropic-version": "v1" }]) {
      await checkUntouched(world, customer, async () => {
        const reply = await askRaw(messages, { ...headers, ...version });
        assert.equal(reply.status, 400, JSON.stringify(version));
        const { type, message } = errorOf(messages, reply);
        assert.equal(type, "invalid_request_error");
        assert.match(message, /provider-version/);
      });
    }
  });
});

/** Sends a body of blanks to its end, and reads the answer, which may come before that. */
function upload(side: Side, headers: Record<string, string>, bytes: number): Promise<Reply> {
  return new Promise((resolve, reject) => {
    // A connection of its own, which Node's client asks the server to close after the answer.
    const sending = request(`${relayUrl}${side.path}`, { method: "POST", headers, agent: false });
    sending.on("error", reject);
    sending.on("response", (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (piece: string) => (text += piece));
      answer.on("end", () => {
        const found = new Headers(answer.headers as Record<string, string>);
        const rid = found.get("x-request-id") ?? "";
        resolve({ status: answer.statusCode ?? 0, headers: found, text, rid, json: () => JSON.parse(text) as Json });
      });
    });
    const piece = Buffer.alloc(1024 * 1024, " ");
    let left = bytes;
    const pour = (): void => {
      while (left > 0) {
        const size = Math.min(left, piece.length);
        left -= size;
        if (!sending.write(piece.subarray(0, size))) return void sending.once("drain", pour);
      }
      // Fewer bytes than announced: there is no end to send.
      if (headers["content-length"] === undefined) sending.end();
    };
    pour();
  });
}

describe("key errors win over body errors and over unknown models: 401 before 400 and 503", () => {
  for (const side of sides) {
    test(`${side.path}`, async () => {
      const customer = await world.createCustomer();
      const headers = side.headers("sk-wrong");
      const large = JSON.stringify({ a: "x".repeat(200_000) });
      const bodies = ["", "{", "{}", "[]", bodyOf({ side, model: "no-such-model" }), large, `${large}}`];
      for (const body of bodies) {
        await expectRefusal(side, customer, () => askRaw(side, headers, body), rows.keyInvalid);
      }
      const announced = { ...headers, "content-length": String(128 * 1024 * 1024 + 1) };
      await expectRefusal(side, customer, () => upload(side, announced, 1_000), rows.keyInvalid);
      // The answer reaches a caller who sends on and on, too.
      const unannounced = { ...headers, "transfer-encoding": "chunked" };
      await expectRefusal(side, customer, () => upload(side, unannounced, 40_000_000), rows.keyInvalid);
    });
  }

  test("/v1/messages: a wrong key wins over a missing provider-version", async () => {
    const customer = await world.createCustomer();
    await expectRefusal(messages, customer, () => askRaw(messages, { "x-api-key": "sk-wrong" }), rows.keyInvalid);
  });
});

test("after a refusal the rest of a large body is dropped, and the connection serves the next call", async () => {
  const customer = await world.createCustomer();
  const megabytes = `100000\r\n${" ".repeat(0x10_00_00)}\r\n`.repeat(16);
  const head = "POST /v1/chat/completions HTTP/1.1\r\nhost: relay\r\nauthorization: Bearer sk-wrong\r\n";
  const next = `GET /v1/models HTTP/1.1\r\nhost: relay\r\nauthorization: Bearer ${customer.secret}\r\n\r\n`;
  const socket = connect(Number(new URL(relayUrl).port), "127.0.0.1");
  try {
    let answers = "";
    socket.setEncoding("utf8").on("data", (text: string) => (answers += text));
    const isOpen = once(socket, "close").then(() => false);
    socket.write(`${head}transfer-encoding: chunked\r\n\r\n${megabytes}0\r\n\r\n${next}`);
    const statuses = (): string[] => [...answers.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status = ""]) => status);
    await Promise.race([isOpen, until("two answers", () => statuses().length === 2)]);
    assert.deepEqual(statuses(), ["401", "200"]);
  } finally {
    socket.destroy();
  }
});

test("a caller who goes away while sending the body: nothing is held, charged or sent on", async () => {
  const customer = await world.createCustomer();
  const gone = () => answeredWith(world.stack.addresses.opsUrls.relay, 499);
  for (const bytes of [1_000, 200_000]) {
    await checkUntouched(world, customer, async () => {
      const before = await gone();
      const headers = { ...chat.headers(customer.secret), "content-length": String(bytes + 1) };
      const sending = request(`${relayUrl}${chat.path}`, { method: "POST", headers, agent: false });
      sending.on("error", () => undefined);
      sending.write(Buffer.alloc(bytes, " "), () => sending.destroy());
      await until("the relay has noticed", async () => (await gone()) > before);
    });
  }
});
