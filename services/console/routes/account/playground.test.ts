import assert from "node:assert/strict";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { after, before, beforeEach, describe, it } from "node:test";
import { timestampMs, type Timestamp } from "@bufbuild/protobuf/wkt";
import { AuthQuotaService, KeyStatus } from "#proto/authquota/v1/authquota_pb.ts";
import { connectGrpc, unaryClient, type UnaryClient } from "#shared/grpc/grpc.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { createPool, inTransaction, type Pool } from "#shared/stores/postgres.ts";
import { createRid } from "#shared/money/rid.ts";
import { until } from "#shared/testing/until.ts";
import { endPlaygroundKeys } from "../../playground-key.ts";
import { readChatStream } from "../../chat-stream.ts";
import { createSlots } from "../../credentials/slots.ts";
import type { Fields } from "../../testing/browser.ts";
import type { World } from "../../testing/console.ts";
import { chatEnd, chatEvent, type FakeApi } from "../../testing/fake-api.ts";
import { checkPage } from "../../testing/pages.ts";
import { join, signIn, type TestPerson } from "../../testing/people.ts";
import {
  linesOf,
  playgroundPath,
  saidBy,
  saidIn,
  startPlayground,
  usualQuestion,
  type Playground,
} from "../../testing/playground.ts";

let playground: Playground;
let world: World;
let api: FakeApi;
let member: TestPerson;
let another: TestPerson;

before(async () => {
  playground = await startPlayground();
  ({ world, api, member } = playground);
  another = await join(world, playground.operator.browser, "acme", "owner");
  await another.browser.get(path);
});
after(() => playground[Symbol.asyncDispose]());
beforeEach(() => playground.reset());

const path = playgroundPath;
const secretNow = (): string => playground.secretNow();
const post = (fields?: Fields) => playground.post(fields);
const stream = (person: TestPerson, fields: Record<string, string> = {}, signal?: AbortSignal) =>
  playground.stream(fields, signal, person);

/** Answers that wait: each begins and is then a test's to go on with. */
function hold(): ServerResponse[] {
  const held: ServerResponse[] = [];
  api.answer = (response) => {
    response.write(chatEvent("first piece"));
    held.push(response);
  };
  return held;
}

describe("the form", () => {
  it("has the models of the relays, and works when no relay answers", async () => {
    const seen = await member.browser.get(`${path}?model=chat-large`);
    checkPage(seen, path);
    assert.match(seen.text, /<datalist id="models"><option value="chat-large"><\/option><\/datalist>/);
    assert.match(seen.text, /name="model"[^>]* value="chat-large"/);
    assert.doesNotMatch(seen.text, /type="password"/);
    assert.match(seen.text, new RegExp(`Playground of ${member.email}`));
    world.neighbours.failure = new ServiceError("unavailable", "gone");
    try {
      assert.equal((await member.browser.get(path)).status, 200);
    } finally {
      world.neighbours.failure = undefined;
    }
  });

  it("refuses what is no key, model, message or number, and asks the API for nothing", async () => {
    const wrong: Fields[] = [
      { model: "" },
      { model: "m".repeat(257) },
      { message: " " },
      { message: "m".repeat(32_769) },
      { system: "s".repeat(8_193) },
      { "max-tokens": "many" },
      { temperature: "2.1" },
      { temperature: "warm" },
      { "top-p": "1.01" },
      { "top-p": "-1" },
      { compare: "m".repeat(257) },
      { tools: "{}" },
      { tools: "[]" },
      { tools: "[1]" },
      { tools: `[{"a":${"[".repeat(8_000)}${"]".repeat(8_000)}}]` },
      { tools: "[" },
      { tools: `[{"type":"${"t".repeat(16_384)}"}]` },
      { "picture-address": "http://example.org/a.png" },
      { "picture-address": "ftp://example.org/a.png" },
      { "picture-address": `https://example.org/${"a".repeat(2_000)}` },
      { picture: "https://example.org/a.png" },
      { picture: "data:text/html;base64,AAAA" },
      { picture: 'data:image/png;base64,AAAA"onload=' },
      { picture: `data:image/png;base64,${"A".repeat(400_000)}` },
    ];
    for (const fields of wrong) {
      const seen = await post(fields);
      assert.equal(seen.status, 422, JSON.stringify(fields).slice(0, 60));
      checkPage(seen, path);
    }
    assert.equal((await post({ message: "é".repeat(132_000) })).status, 413);
    const asText = await stream(member, { model: "" });
    assert.equal(asText.status, 422);
    assert.deepEqual(await linesOf(asText), [{ problem: "Give the name of a model." }]);
    assert.deepEqual(api.received, []);
  });
});

describe("an answer", () => {
  it("comes from the API, asked as any caller does with a key of the member", async () => {
    const rid = createRid();
    api.answer = (response) => {
      response.setHeader("x-request-id", rid);
      response.end(chatEvent("<b>Hello</b> ") + chatEvent("you & me") + chatEnd);
    };
    const seen = await post({ system: "Be\r\nkind.", message: "Hi <i>there</i>", "max-tokens": "50" });
    assert.equal(seen.status, 200);
    checkPage(seen, path);
    assert.match(seen.text, /&#60;b&#62;Hello&#60;\/b&#62; ?<\/span>(<span class="written">)?you &#38; me/);
    assert.match(seen.text, new RegExp(`Request id:<a href="/accounts/acme/calls/${rid}">${rid}</a>`));
    assert.match(seen.text, /<div class="written">Hi &#60;i&#62;there&#60;\/i&#62;<\/div>/);
    assert.match(seen.text, /Be\s+kind\.<\/textarea>/, "the settings stay as they were sent");
    assert.match(seen.text, /name="max-tokens"[^>]* value="50"/);
    assert.match(seen.text, /<textarea\s+id="message"[^>]*>\s*<\/textarea>/, "the message is empty for the next");
    const [asked] = api.received;
    assert.equal(asked?.path, "/v1/chat/completions");
    assert.equal(asked?.headers["authorization"], `Bearer ${secretNow()}`);
    assert.deepEqual(asked?.body, {
      model: "chat-large",
      messages: [
        { role: "system", content: "Be\nkind." },
        { role: "user", content: "Hi <i>there</i>" },
      ],
      stream: true,
      max_completion_tokens: 50,
    });
  });

  it("is lines for the script: the question, what is said, and what goes with the next message", async () => {
    api.answer = (response) => {
      response.setHeader("x-request-id", "rid-1");
      response.end(chatEvent("<b>Hé") + chatEvent("llo") + chatEnd);
    };
    const response = await stream(member);
    assert.equal(response.headers.get("content-type"), "application/x-ndjson");
    assert.equal(response.headers.get("cache-control"), "no-store");
    assert.equal(response.headers.get("x-accel-buffering"), "no");
    const lines = await linesOf(response);
    assert.equal(saidIn(lines), "<b>Héllo");
    assert.match(lines[0]?.question ?? "", /<div class="written">Hi<\/div>/);
    const end = lines.at(-1);
    assert.match(lines.at(-2)?.figures ?? "", /calls\/rid-1"/);
    assert.deepEqual(JSON.parse(end?.conversation ?? ""), [{ question: "Hi", answer: "<b>Héllo", requestId: "rid-1" }]);
    assert.equal(end?.isKept, true);
  });

  it("is passed on piece by piece, in a page and as text, while the API still holds the rest", async () => {
    for (const as of ["lines", ""]) {
      const held = hold();
      const response = await stream(member, { as });
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      let seen = "";
      while (!seen.includes("first piece")) seen += (await reader?.read())?.value ?? assert.fail("it ended");
      assert.doesNotMatch(seen, /second|<\/html>/);
      held[0]?.end(chatEvent("second piece") + chatEnd);
      for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) seen += part.value;
      assert.match(
        seen,
        as === "lines"
          ? /"said":"first piece"\}\n\{"side":0,"said":"second piece"\}\n\{"side":0,"figures"/
          : /second piece<\/span>[^]*<\/form>\s*<\/main>[^]*<\/html>/,
      );
    }
  });

  it("is put together from bytes however they are cut", async () => {
    const bytes = Buffer.from(`: a comment\r\n\r\n${chatEvent("zażółć")}event: x\ndata: no json\n\n${chatEnd}data: {`);
    async function* oneByOne(): AsyncGenerator<Buffer> {
      for (const byte of bytes) yield Buffer.of(byte);
    }
    let said = "";
    for await (const event of readChatStream(oneByOne())) said += event.said + event.finish;
    assert.equal(said, "zażółćstop");
  });

  it("is given up when a line of it has no end", async () => {
    async function* endless(): AsyncGenerator<Buffer> {
      for (;;) yield Buffer.alloc(65_536, "a");
    }
    await assert.rejects(async () => void (await Array.fromAsync(readChatStream(endless()))), /too long/);
  });

  it("that the API refuses is its status and message, without the key that it may repeat", async () => {
    api.answer = (response) => {
      response.writeHead(401, { "x-request-id": "rid-2" });
      response.end(JSON.stringify({ error: { message: `Invalid key ${secretNow()} <script>` } }));
    };
    const seen = await post();
    assert.match(seen.text, /The API answered with status 401: Invalid key \(the key\) &#60;script&#62;/);
    assert.match(seen.text, /calls\/rid-2"/);
    api.answer = (response) => response.writeHead(302, { location: "http://127.0.0.1:1/" }).end();
    assert.match((await post()).text, /The API answered with status 302\./);
    assert.equal(api.received.length, 2, "a redirect is not followed");
  });

  it("that is not whole says so: an error within, no reason for its end, a cut, the most tokens, no API", async () => {
    const said = async (answer: FakeApi["answer"]): Promise<string> => {
      api.answer = answer;
      return saidBy(await stream(member));
    };
    const error = `data: {"error":{"message":"The upstream failed","code":"server_error"}}\n\n`;
    assert.match(await said((one) => one.end(chatEvent("A") + error)), /^A\[.* stopped .*: The upstream failed\]$/);
    assert.match(await said((one) => one.end(`${chatEvent("A")}data: [DONE]\n\n`)), /^A\[The response was cut off/);
    const cut = (one: ServerResponse): void => void one.write(chatEvent("A"), () => one.destroy());
    assert.match(await said(cut), /^A\[The response was cut off/);
    assert.match(await said((one) => one.end(chatEvent("A", "length"))), /^A\[.* most tokens\.\]$/);
    assert.match(await said((one) => one.destroy()), /The API cannot be reached right now/);
  });

  it("ends at 1,048,576 characters, and the call with it", async () => {
    const gone = Promise.withResolvers<void>();
    const piece = chatEvent("a".repeat(65_536));
    api.answer = (response) => {
      response.once("close", () => gone.resolve());
      for (let index = 0; index < 17; index += 1) response.write(piece);
    };
    const text = await saidBy(await stream(member));
    assert.equal(text, `${"a".repeat(1_048_576)}[The answer is cut here: it is too long.]`);
    await gone.promise;
  });

  it("cancels the call at the API when whoever asked has gone", async () => {
    const held = hold();
    const leaving = new AbortController();
    const response = await stream(member, {}, leaving.signal);
    assert.equal(response.status, 200);
    const gone = once(held[0] ?? assert.fail(), "close");
    leaving.abort();
    await gone;
  });

  it("cancels it, too, when they go before the API has begun to answer", async () => {
    const asked = Promise.withResolvers<ServerResponse>();
    api.answer = (response) => asked.resolve(response);
    const leaving = new AbortController();
    const lost = assert.rejects(stream(member, {}, leaving.signal));
    const gone = once(await asked.promise, "close");
    leaving.abort();
    await Promise.all([lost, gone]);
  });
});

describe("how much at once", () => {
  it("asks nothing for whoever has gone before it was begun", async () => {
    const leaving = new AbortController();
    await using owner = createPool(world.database.ownerUrl, "test", () => undefined);
    await inTransaction(owner, async (db) => {
      await db.query("LOCK TABLE console.person IN ACCESS EXCLUSIVE MODE");
      const sent = stream(member, {}, leaving.signal).catch(() => undefined);
      await until("the request waits", async () => (await db.query("SELECT FROM pg_locks WHERE NOT granted")).rowCount);
      leaving.abort();
      await sent;
      // A page that needs no table: when it is there, the console has seen the connection end, too.
      assert.equal((await world.browser().get("/nothing")).status, 404);
    });
    const both = [await stream(member), await stream(member)];
    const texts = await Promise.all(both.map(saidBy));
    assert.deepEqual([texts, api.received.length], [["Hello", "Hello"], 2]);
  });

  it("a person has two answers at once; a third is refused, another's is not, and a place is free again", async () => {
    const held = hold();
    const running = [await stream(member), await stream(member)];
    const third = await stream(member);
    assert.equal(third.status, 429);
    assert.match(await saidBy(third), /Too many answers are under way/);
    const page = await post();
    assert.equal(page.status, 429);
    checkPage(page, path);
    const others = await stream(another);
    assert.equal(others.status, 200);
    for (const response of held) response.end(chatEnd);
    for (const response of [...running, others]) assert.equal(await saidBy(response), "first piece");
    api.answer = (response) => response.end(chatEvent("again") + chatEnd);
    await until("a place is free", async () => (await saidBy(await stream(member))) === "again");
  });

  it("there are eight places for all, and leaving one twice frees one", () => {
    const places = createSlots({ inAll: 8, ofOne: 2 });
    const taken = Array.from({ length: 8 }, (_, index) => places.take(`person ${index % 4}`));
    assert.ok(taken.every((leave) => leave !== undefined));
    assert.equal(places.take("person 9"), undefined);
    taken[0]?.();
    taken[0]?.();
    assert.equal(places.take("person 1"), undefined, "who has two");
    assert.ok(places.take("person 9"));
    assert.equal(places.take("person 8"), undefined);
  });
});

describe("the key of the playground", () => {
  const own = () => [...world.neighbours.keys.values()].filter(({ name }) => name === `Playground of ${member.email}`);
  const used = (): string[] => api.received.map(({ headers }) => String(headers["authorization"]));
  const sweep = () => endPlaygroundKeys({ pool, authQuota });
  let pool: Pool;
  let channel: ReturnType<typeof connectGrpc>;
  let authQuota: UnaryClient<typeof AuthQuotaService>;
  before(() => {
    pool = createPool(world.database.url, "test", () => undefined);
    channel = connectGrpc(world.neighbours.authQuotaAddress);
    authQuota = unaryClient(AuthQuotaService, channel, 5_000);
  });
  after(() => {
    channel[Symbol.dispose]();
    return pool.end();
  });

  it("is made once for all answers of a member, by whichever replica, and lasts a day after the last of them", async () => {
    await Promise.all([stream(member), stream(member)].map(async (one) => (await one).text()));
    await post();
    assert.equal(new Set(used()).size, 1);
    assert.equal(own().length, 1);
    const endsMs = () => timestampMs(own()[0]?.expiresAt as Timestamp);
    const before = endsMs();
    world.clock.moveMs += 13 * 3_600_000;
    const later = await signIn(world, member.email);
    await later.get(path);
    await later.post(path, usualQuestion).finally(() => (world.clock.moveMs -= 13 * 3_600_000));
    assert.ok(endsMs() - before >= 13 * 3_600_000, "it is put off");
  });

  it("that was deleted under Keys is made anew", async () => {
    const [key] = own();
    await authQuota.deleteKey({ keyId: key?.keyId ?? "" });
    await post();
    assert.equal(own().length, 2);
    assert.equal(used().at(-1), `Bearer secret-of-${own()[1]?.keyId ?? ""}`);
  });

  it("ends with the right to use it, and when nobody used it for a day", async () => {
    const newest = () => own().at(-1);
    await post();
    await sweep();
    assert.notEqual(newest()?.status, KeyStatus.DELETED);
    const setRole = async (role: string): Promise<void> =>
      void (await world.database.sql(
        `UPDATE console.membership SET role = '${role}' WHERE person_id = '${member.personId}'`,
      ));
    await setRole("viewer");
    await sweep();
    await setRole("developer");
    assert.equal(newest()?.status, KeyStatus.DELETED);
    await post();
    assert.notEqual(newest()?.status, KeyStatus.DELETED);
    await world.database.sql("UPDATE console.playground_key SET expires_at = now() - interval '1 second'");
    await sweep();
    assert.equal(newest()?.status, KeyStatus.DELETED);
    assert.deepEqual(await world.database.sql("SELECT FROM console.playground_key"), []);
  });
});

it("the key is in no page, row or line of the log", async () => {
  const pages = [await post(), await post({ model: "" }), await member.browser.get(path)];
  const secret = secretNow();
  for (const { text } of pages) assert.ok(!text.includes(secret));
  assert.ok(api.received.some(({ headers }) => headers["authorization"]?.includes(secret)));
  for (const table of ["audit_entry", "session", "person", "playground_key"]) {
    const rows = await world.database.sql(`SELECT t::text AS text FROM console.${table} AS t`);
    assert.ok(
      rows.every(({ text }) => !String(text).includes(secret)),
      table,
    );
  }
  assert.match(world.logText(), /playground could not reach the API/);
  assert.ok(!world.logText().includes(secret));
});
