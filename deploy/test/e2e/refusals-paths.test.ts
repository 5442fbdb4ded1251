import assert from "node:assert/strict";
import { request } from "node:http";
import { after, describe, test } from "node:test";
import { ask, bodyOf, chat, errorOf, makeCall, sides } from "./ask.ts";
import { checkRefusal, checkUntouched, rows } from "./refusal.ts";
import { startWorld } from "./world.ts";

const ipPerMinute = 4;
// A proxy on this machine is trusted, so that each test can come from an address of its own.
const world = await startWorld({
  serviceEnvironment: {
    relay: { TRUSTED_PROXIES: "127.0.0.1" },
    "auth-quota": { IP_REQUESTS_PER_MINUTE: String(ipPerMinute) },
  },
});
after(() => world[Symbol.asyncDispose]());
const { relayUrl } = world;

let addresses = 0;

/** Headers by which a trusted proxy tells of a caller whom nobody has met yet. */
function fromNewAddress(proto = "https"): Record<string, string> {
  addresses += 1;
  return { "x-forwarded-for": `203.0.113.${addresses}`, "x-forwarded-proto": proto };
}

describe("paths", () => {
  const unknown: [string, string][] = [
    ["POST", "/v1/v1/chat/completions"],
    ["POST", "/v1/v1/messages"],
    ["GET", "/v1/v1/models"],
    ["POST", "/v1/nothing"],
    ["POST", "/v1/batches"],
    ["POST", "/v1/images/variations"],
    ["GET", "/v1/dashboard/billing/usage"],
    ["GET", "/v1/chat/completions"],
    ["DELETE", "/v1/models"],
    ["POST", "/v1/"],
    ["GET", "/v1"],
  ];
  for (const [method, path] of unknown) {
    test(`${method} ${path}: 404 with a JSON error whose message is Invalid URL (${method} ${path})`, async () => {
      const customer = await world.createCustomer();
      const headers = { ...chat.headers(customer.secret), ...fromNewAddress() };
      await checkUntouched(world, customer, async () => {
        const body = method === "POST" ? { body: bodyOf({ side: chat }) } : {};
        const reply = await ask(`${relayUrl}${path}?secret=1`, { method, headers, ...body });
        checkRefusal(chat, reply, { status: 404, message: `Invalid URL (${method} ${path})`, code: "" });
      });
    });
  }

  test("POST /v1/messages/count_tokens is not supported: 404", async () => {
    const customer = await world.createCustomer();
    const [, side] = sides;
    assert.ok(side);
    const headers = { ...side.headers(customer.secret), ...fromNewAddress() };
    await checkUntouched(world, customer, async () => {
      const reply = await ask(`${relayUrl}/v1/messages/count_tokens`, { headers, body: bodyOf({ side }) });
      assert.equal(reply.status, 404);
      assert.equal(errorOf(side, reply).message, "Invalid URL (POST /v1/messages/count_tokens)");
    });
  });

  for (const path of ["/chat/completions", "/messages", "/models", "/", "/v2/models", "/v1x/models", "/favicon.ico"]) {
    test(`API spec, Authentication: 4. HTTP 404 with the website's HTML page (not JSON), even with a correct key; API spec, Cases: Path without \`/v1\` | 404 | none; HTML page (${path})`, async () => {
      const customer = await world.createCustomer();
      const headers = { ...chat.headers(customer.secret), ...fromNewAddress() };
      await checkUntouched(world, customer, async () => {
        for (const method of ["GET", "POST"]) {
          const body = method === "POST" ? { body: bodyOf({ side: chat }) } : {};
          const reply = await ask(`${relayUrl}${path}`, { method, headers, ...body });
          assert.equal(reply.status, 404);
          assert.match(reply.headers.get("content-type") ?? "", /^text\/html/);
          assert.match(reply.text, /^<!doctype html>/);
        }
      });
    });
  }
});

describe("API spec, Authentication: 3. Only HTTPS is accepted; API spec, Cases: Any other unprocessable request | 400 or 403 | `The request could not be completed`", () => {
  for (const side of sides) {
    test(`${side.path}: a caller whose proxy says that it came over plain HTTP`, async () => {
      const customer = await world.createCustomer();
      const headers = { ...side.headers(customer.secret), ...fromNewAddress("http") };
      await checkUntouched(world, customer, async () => {
        const reply = await ask(`${relayUrl}${side.path}`, { headers, body: bodyOf({ side }) });
        checkRefusal(side, reply, rows.notProcessable);
      });
    });

    test(`${side.path}: a forwarded caller whose proxy does not say how it came`, async () => {
      const customer = await world.createCustomer();
      const headers = { ...side.headers(customer.secret), "x-forwarded-for": "203.0.113.200" };
      await checkUntouched(world, customer, async () => {
        const reply = await ask(`${relayUrl}${side.path}`, { headers, body: bodyOf({ side }) });
        checkRefusal(side, reply, rows.notProcessable);
      });
    });

    test(`${side.path}: a caller whose proxy says that it came over HTTPS is served`, async () => {
      const customer = await world.createCustomer();
      const headers = { ...side.headers(customer.secret), ...fromNewAddress() };
      const reply = await ask(`${relayUrl}${side.path}`, { headers, body: bodyOf({ side }) });
      assert.equal(reply.status, 200, reply.text);
      await world.untilBooked(customer.accountId, reply.rid);
    });
  }

  const isLinux = process.platform === "linux";
  test("a caller from another address than 127.0.0.1 whose word is not trusted", { skip: !isLinux }, async () => {
    const customer = await world.createCustomer();
    // Linux gives the whole network 127.0.0.0/8 to this machine; the relay trusts one address of it.
    const status = await statusFrom("127.0.0.2", { ...chat.headers(customer.secret), "x-forwarded-proto": "https" });
    assert.equal(status, 403);
    assert.equal(await statusFrom("127.0.0.2", chat.headers(customer.secret)), 403);
    assert.equal((await world.ledgerOf(customer.accountId)).length, 0);
  });
});

function statusFrom(localAddress: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const asking = request(`${relayUrl}${chat.path}`, { method: "POST", headers, localAddress, agent: false });
    asking.on("error", reject).on("response", (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    asking.end(bodyOf({ side: chat }));
  });
}

describe("rate limits", () => {
  for (const side of sides) {
    test(`API spec, Cases: Account rate limit exceeded | 429 | \`Rate limit exceeded for your account, please retry after 60 seconds\`; API spec, Limits: Account rate limit | 429 with \`Retry-After: 60\` (${side.path})`, async () => {
      const customer = await world.createCustomer({ requestsPerMinute: 2 });
      const once = () =>
        ask(`${relayUrl}${side.path}`, {
          headers: { ...side.headers(customer.secret), ...fromNewAddress() },
          body: bodyOf({ side }),
        });
      for (let call = 1; call <= 2; call += 1) {
        const { rid, status } = await once();
        assert.equal(status, 200);
        await world.untilBooked(customer.accountId, rid);
      }
      await checkUntouched(world, customer, async () => checkRefusal(side, await once(), rows.accountRate));
      const other = await world.createCustomer();
      const reply = await ask(`${relayUrl}${side.path}`, {
        headers: { ...side.headers(other.secret), ...fromNewAddress() },
        body: bodyOf({ side }),
      });
      assert.equal(reply.status, 200, "another account is not limited by it");
      await world.untilBooked(other.accountId, reply.rid);
    });

    test(`API spec, Cases: Same-IP rate limit exceeded | 429 | \`Too many requests from your IP address, …\`; API spec, Limits: Per-IP rate limit | 429 with \`Retry-After\` giving the seconds to wait (${side.path})`, async () => {
      const customer = await world.createCustomer();
      const address = fromNewAddress();
      const once = (headers = {}) =>
        ask(`${relayUrl}${side.path}`, {
          headers: { ...side.headers(customer.secret), ...address, ...headers },
          body: bodyOf({ side }),
        });
      const startedAt = performance.now();
      for (let call = 1; call <= ipPerMinute; call += 1) {
        const { rid, status } = await once();
        assert.equal(status, 200);
        await world.untilBooked(customer.accountId, rid);
      }
      // Also a key that is wrong: the address is counted first.
      for (const headers of [{}, side.headers("sk-wrong")]) {
        await checkUntouched(world, customer, async () => {
          const reply = await once(headers);
          const retryAfter = reply.headers.get("retry-after") ?? "";
          // One call each 60 s / limit: the wait is that, less what has passed since the first call.
          const passedSeconds = (performance.now() - startedAt) / 1_000;
          const wholeWait = 60 / ipPerMinute;
          const least = Math.max(1, Math.ceil(wholeWait - passedSeconds));
          assert.ok(Number(retryAfter) >= least && Number(retryAfter) <= wholeWait, retryAfter);
          checkRefusal(side, reply, { ...rows.ipRate, retryAfter });
        });
      }
      assert.equal((await once(fromNewAddress())).status, 200, "another address is not limited by it");
    });
  }

  test("a body above 64 KiB counts once against the rate of its address", async () => {
    const customer = await world.createCustomer();
    const address = fromNewAddress();
    for (let call = 1; call <= ipPerMinute; call += 1) {
      const headers = { ...chat.headers(customer.secret), ...address };
      const body = bodyOf({ side: chat, prompt: "word ".repeat(20_000) });
      const reply = await ask(`${relayUrl}${chat.path}`, { headers, body });
      assert.equal(reply.status, 200, reply.text);
      await world.untilBooked(customer.accountId, reply.rid);
    }
  });
});

test("a right call after all that is served", async () => {
  const customer = await world.createCustomer();
  const reply = await makeCall(relayUrl, customer.secret, { side: chat });
  assert.equal(reply.status, 200);
  await world.untilBooked(customer.accountId, reply.rid);
});
