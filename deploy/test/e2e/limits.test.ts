import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { request } from "node:http";
import { after, describe, test } from "node:test";
import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { parse } from "yaml";
import { until } from "#shared/testing/until.ts";
import { httpDialects } from "../../../services/relay/dialects/index.ts";
import { ask, bodyOf, chat, makeCall, messages, type Side, sides } from "./ask.ts";
import { type CatalogSections, catalogText, testCatalog } from "./catalog.ts";
import { checkRefusal, checkUntouched, rows } from "./refusal.ts";
import { startWorld } from "./world.ts";

const mebibyte = 1024 * 1024;
const budgetBytes = 160 * mebibyte;
// What one account may hold of it, which is as much as the largest body has.
const shareBytes = 128 * mebibyte;
const ipPerMinute = 120;
// A proxy on this machine is trusted, so that a test can come from an address of its own.
const world = await startWorld({
  serviceEnvironment: {
    relay: { MAX_BODY_BYTES_IN_FLIGHT: String(budgetBytes), TRUSTED_PROXIES: "127.0.0.1" },
    "auth-quota": { IP_REQUESTS_PER_MINUTE: String(ipPerMinute) },
  },
});
after(() => world[Symbol.asyncDispose]());
const { relayUrl } = world;

let addresses = 0;

/** Headers by which a trusted proxy tells of a caller whom nobody has met yet. */
function fromNewAddress(): Record<string, string> {
  addresses += 1;
  return { "x-forwarded-for": `203.0.113.${addresses}`, "x-forwarded-proto": "https" };
}

const malformed = { status: 400, message: "The request could not be completed", code: "invalid_request" };

async function send(side: Side, secret: string, headers: Record<string, string>, body: string | Buffer) {
  return ask(`${relayUrl}${side.path}`, {
    headers: { ...side.headers(secret), ...fromNewAddress(), ...headers },
    body,
  });
}

describe("compressed bodies", () => {
  // The fastest levels: how well it is compressed is nothing to the relay.
  const encoders = {
    gzip: (body: Buffer) => gzipSync(body, { level: 1 }),
    deflate: (body: Buffer) => deflateSync(body, { level: 1 }),
    br: (body: Buffer) => brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
    zstd: zstdCompressSync,
  };
  for (const [encoding, encode] of Object.entries(encoders)) {
    test(`${encoding}: inflated, served and sent on plain`, async () => {
      const customer = await world.createCustomer();
      for (const side of sides) {
        const text = bodyOf({ side, prompt: "word ".repeat(20_000) });
        const reply = await send(side, customer.secret, { "content-encoding": encoding }, encode(Buffer.from(text)));
        assert.equal(reply.status, 200, reply.text);
        await world.untilBooked(customer.accountId, reply.rid);
        const received = world.fake.received.at(-1);
        assert.equal(received?.headers["content-encoding"], undefined);
        assert.deepEqual(received?.body, JSON.parse(text));
      }
    });

    test(`${encoding}: a bomb is refused as larger than 128 MB, broken data as not processable`, async () => {
      const customer = await world.createCustomer();
      const headers = { "content-encoding": encoding };
      // Blanks before a right call: what it inflates to is all that is wrong with it.
      const bomb = encode(Buffer.concat([Buffer.alloc(budgetBytes, " "), Buffer.from(bodyOf({ side: chat }))]));
      await checkUntouched(world, customer, async () => {
        checkRefusal(chat, await send(chat, customer.secret, headers, bomb), rows.tooLarge);
        const broken = encode(Buffer.from(bodyOf({ side: chat }))).subarray(0, -6);
        checkRefusal(chat, await send(chat, customer.secret, headers, broken), malformed);
        checkRefusal(chat, await send(chat, "sk-wrong", headers, bomb), rows.keyInvalid);
      });
      await until("the bytes are given back", async () => (await bodyBytes()) === 0);
    });
  }

  test("an unknown encoding: 400; a wrong key comes first", async () => {
    const customer = await world.createCustomer();
    await checkUntouched(world, customer, async () => {
      for (const encoding of ["compress", "gzip, br", "aes128gcm"]) {
        const headers = { "content-encoding": encoding };
        checkRefusal(messages, await send(messages, customer.secret, headers, bodyOf({ side: messages })), malformed);
        checkRefusal(messages, await send(messages, "sk-wrong", headers, bodyOf({ side: messages })), rows.keyInvalid);
      }
    });
  });
});

/** Bytes that the relay has set aside for large bodies, by its own metrics. */
async function bodyBytes(): Promise<number> {
  const text = await (await fetch(`${world.stack.addresses.opsUrls.relay}/metrics`)).text();
  return Number(/^relay_body_bytes\{[^}]*\} (\S+)$/m.exec(text)?.[1]);
}

/** Begins a call with a large body and leaves it at that: announced, one more byte would be its end. */
function beginLarge(secret: string, bytes: number, isAnnounced: boolean) {
  const framing = isAnnounced ? { "content-length": String(bytes + 1) } : { "transfer-encoding": "chunked" };
  const headers = { ...chat.headers(secret), ...fromNewAddress(), ...framing };
  const sending = request(`${relayUrl}${chat.path}`, { method: "POST", headers, agent: false });
  const answered = new Promise<number | undefined>((resolve) => {
    sending.on("response", (answer) => resolve(answer.resume().statusCode)).on("error", () => resolve(undefined));
  });
  sending.write(Buffer.alloc(bytes, " "));
  return { answered, leave: () => sending.destroy() };
}

describe("API spec, Limits: Request body size. The bytes that one process keeps of large bodies are limited", () => {
  test("beyond the budget a large body gets 503 with Retry-After 5, a small one is served; leaving gives back", async () => {
    const customer = await world.createCustomer();
    const large = bodyOf({ side: chat, prompt: "word ".repeat(20_000) });
    for (const isAnnounced of [true, false]) {
      const first = beginLarge(customer.secret, shareBytes - 1, isAnnounced);
      await until("all is set aside", async () => (await bodyBytes()) === shareBytes - 1);
      await checkUntouched(world, customer, async () => {
        checkRefusal(chat, await send(chat, customer.secret, {}, large), rows.serviceUnavailable);
        checkRefusal(chat, await send(chat, "sk-wrong", {}, large), rows.keyInvalid);
        const encoded = gzipSync(large);
        checkRefusal(
          chat,
          await send(chat, customer.secret, { "content-encoding": "gzip" }, encoded),
          rows.serviceUnavailable,
        );
        const third = beginLarge(customer.secret, mebibyte, false);
        assert.equal(await third.answered, 503);
        third.leave();
      });
      const small = await send(chat, customer.secret, {}, bodyOf({ side: chat }));
      assert.equal(small.status, 200);
      await world.untilBooked(customer.accountId, small.rid);
      first.leave();
      await until("all is given back", async () => (await bodyBytes()) === 0);
      const served = await send(chat, customer.secret, {}, large);
      assert.equal(served.status, 200, served.text);
      await world.untilBooked(customer.accountId, served.rid);
      await until("nothing is set aside", async () => (await bodyBytes()) === 0);
    }
  });

  test("bodies that are announced and drip keep nobody out", async () => {
    const customer = await world.createCustomer();
    const dripping = Array.from({ length: 4 }, () => {
      const headers = { ...chat.headers(customer.secret), ...fromNewAddress(), "content-length": String(shareBytes) };
      const sending = request(`${relayUrl}${chat.path}`, { method: "POST", headers, agent: false });
      sending.on("error", () => undefined).write(Buffer.alloc(mebibyte, " "));
      return sending;
    });
    await until("they hold what they have sent", async () => (await bodyBytes()) === dripping.length * mebibyte);
    const large = bodyOf({ side: chat, prompt: "word ".repeat(1_000_000) });
    const served = await send(chat, customer.secret, {}, large);
    assert.equal(served.status, 200, served.text);
    await world.untilBooked(customer.accountId, served.rid);
    for (const sending of dripping) sending.destroy();
    await until("nothing is set aside", async () => (await bodyBytes()) === 0);
  });

  test("a body is counted until its call ends, not until it is read", async () => {
    const customer = await world.createCustomer();
    const leaving = new AbortController();
    const behaviour = { fault: { kind: "stall", afterChunks: 1 } } as const;
    const body = bodyOf({ side: chat, isStream: true, behaviour, prompt: "word ".repeat(20_000) });
    const running = await fetch(`${relayUrl}${chat.path}`, {
      method: "POST",
      headers: { ...chat.headers(customer.secret), ...fromNewAddress() },
      body,
      signal: leaving.signal,
    });
    assert.equal(running.status, 200);
    assert.equal(await bodyBytes(), Buffer.byteLength(body));
    leaving.abort();
    await until("it is given back", async () => (await bodyBytes()) === 0);
    await world.untilSettled(customer.accountId, 1);
  });
});

test("257 levels of JSON are not valid, 256 are", async () => {
  const customer = await world.createCustomer();
  const nested = (levels: number): string =>
    `${bodyOf({ side: chat }).slice(0, -1)},"x_deep":${"[".repeat(levels)}${"]".repeat(levels)}}`;
  await checkUntouched(world, customer, async () => {
    checkRefusal(chat, await send(chat, customer.secret, {}, nested(257)), rows.invalidJson);
  });
  const reply = await send(chat, customer.secret, {}, nested(256));
  assert.equal(reply.status, 200, reply.text);
  await world.untilBooked(customer.accountId, reply.rid);
});

test("API spec, Retry guidance: 2. When `Retry-After` is present, the seconds to wait for per-IP 429s: a call made after them passes", async () => {
  const customer = await world.createCustomer();
  const headers = { ...chat.headers(customer.secret), ...fromNewAddress() };
  const once = () => ask(`${relayUrl}/v1/models`, { method: "GET", headers });
  const refused = await until("the address has used up its rate", async () => {
    const replies = await Promise.all(Array.from({ length: 40 }, once));
    return replies.find(({ status }) => status !== 200);
  });
  assert.ok(refused);
  const refusedAtMs = performance.now();
  // Calls come half a second apart at this limit, and Retry-After knows whole seconds only.
  checkRefusal(chat, refused, { ...rows.ipRate, retryAfter: "1" });
  await until("the seconds have passed", () => performance.now() - refusedAtMs >= 1_000);
  assert.equal((await once()).status, 200);
});

describe("keys with limits of their own", () => {
  test("a key that is limited to some addresses is a wrong one from all others, whatever it asks for", async () => {
    const customer = await world.createCustomer({ key: { addresses: ["198.51.100.0/25", "2001:db8:7::1"] } });
    const from = (address: string) => ({ "x-forwarded-for": address });
    for (const address of ["198.51.100.128", "2001:db8:7::2"]) {
      await checkUntouched(world, customer, async () => {
        for (const side of sides) {
          const reply = await send(side, customer.secret, from(address), bodyOf({ side }));
          checkRefusal(side, reply, rows.keyInvalid);
        }
        const headers = { ...chat.headers(customer.secret), ...fromNewAddress(), ...from(address) };
        checkRefusal(chat, await ask(`${relayUrl}/v1/models`, { method: "GET", headers }), rows.keyInvalid);
      });
    }
    for (const address of ["198.51.100.127", "2001:db8:7::1"]) {
      const reply = await send(chat, customer.secret, from(address), bodyOf({ side: chat }));
      assert.equal(reply.status, 200, reply.text);
      await world.untilBooked(customer.accountId, reply.rid);
    }
    const { accountId } = customer;
    const told = await until("its owner is told why", async () => {
      const { counts } = await world.authQuota.listRefusals({ accountId });
      return counts.length > 0 ? counts : undefined;
    });
    assert.deepEqual(new Set(told?.map(({ reason }) => reason)), new Set(["key_address"]));
  });

  test("API spec, Cases: Account rate limit exceeded, of the calls of one key in a minute; other keys go on", async () => {
    const customer = await world.createCustomer({ key: { requestsPerMinute: 2 } });
    const other = await world.createKey(customer.accountId);
    for (const side of sides) {
      const reply = await send(side, customer.secret, {}, bodyOf({ side }));
      assert.equal(reply.status, 200, reply.text);
      await world.untilBooked(customer.accountId, reply.rid);
    }
    await checkUntouched(world, customer, async () => {
      for (const side of sides) {
        checkRefusal(side, await send(side, customer.secret, {}, bodyOf({ side })), rows.accountRate);
      }
    });
    const reply = await send(chat, other.secret, {}, bodyOf({ side: chat }));
    assert.equal(reply.status, 200, reply.text);
    await world.untilBooked(customer.accountId, reply.rid);
  });
});

describe("API spec, Cases: Service stopped or busy (maintenance)", () => {
  const original = testCatalog(world.fake.url);
  const closed = catalogText({ maintenance: true, ...(parse(original) as CatalogSections) } as CatalogSections);
  const listed = async (secret: string): Promise<number> => {
    const headers = { ...chat.headers(secret), ...fromNewAddress() };
    return (await ask(`${relayUrl}/v1/models`, { method: "GET", headers })).status;
  };

  test("503 with Retry-After 5 for every call, whatever its key, while running answers go on; hot, there and back", async () => {
    const customer = await world.createCustomer();
    const leaving = new AbortController();
    const behaviour = { fault: { kind: "stall", afterChunks: 1 } } as const;
    const running = await fetch(`${relayUrl}${chat.path}`, {
      method: "POST",
      headers: { ...chat.headers(customer.secret), ...fromNewAddress() },
      body: bodyOf({ side: chat, isStream: true, behaviour }),
      signal: leaving.signal,
    });
    await writeFile(world.stack.catalogFile, closed);
    await until("the maintenance has begun", async () => (await listed(customer.secret)) === 503);
    const reader = (running.body as ReadableStream<Uint8Array>).getReader();
    assert.match(Buffer.from((await reader.read()).value ?? []).toString(), /^data: /);

    const received = world.fake.received.length;
    const asked = [
      ...httpDialects.map(({ path }) => ({ path, method: "POST", body: bodyOf({ side: chat }) })),
      { path: "/v1/models", method: "GET" },
      { path: "/v1/models/test-model", method: "GET" },
      { path: "/v1/nothing", method: "GET" },
    ];
    for (const { path, ...question } of asked) {
      const side = path === messages.path ? messages : chat;
      for (const secret of [customer.secret, "sk-wrong"]) {
        const headers = { ...side.headers(secret), ...fromNewAddress() };
        checkRefusal(side, await ask(`${relayUrl}${path}`, { headers, ...question }), rows.serviceUnavailable);
      }
    }
    const large = bodyOf({ side: chat, prompt: "word ".repeat(100_000) });
    checkRefusal(chat, await send(chat, customer.secret, {}, large), rows.serviceUnavailable);
    assert.equal(world.fake.received.length, received);
    assert.equal((await fetch(`${relayUrl}/pricing`, { headers: fromNewAddress() })).status, 404);

    await writeFile(world.stack.catalogFile, original);
    await until("the maintenance is over", async () => (await listed(customer.secret)) === 200);
    const reply = await makeCall(relayUrl, customer.secret, { side: chat });
    assert.equal(reply.status, 200, reply.text);
    leaving.abort();
    await world.untilSettled(customer.accountId, 2);
  });
});
