import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { key, open, partOf, quotaOf, refused, start, type Json } from "../../testing/realtime-client.ts";

describe("client secrets", async () => {
  const relay = await start();

  async function make(body: unknown, headers: Json = key): Promise<{ status: number; answer: Json }> {
    const response = await fetch(`${relay.url}/v1/realtime/client_secrets`, {
      method: "POST",
      headers: { "content-type": "application/json", ...(headers as Record<string, string>) },
      body: JSON.stringify(body),
    });
    return { status: response.status, answer: (await response.json()) as Json };
  }

  const session = { type: "realtime", model: "talk", instructions: "Speak like a pirate." };

  test("open sessions of their model as their key, which begin as they say", async () => {
    const { status, answer } = await make({ session, expires_after: { anchor: "created_at", seconds: 60 } });
    assert.equal(status, 200);
    assert.ok(Math.abs(Number(answer["expires_at"]) - Date.now() / 1_000 - 60) < 5);
    const headers = { authorization: `Bearer ${String(answer["value"])}` };
    const { find } = await open(relay, { query: "", options: { headers } });
    await find("session.updated");
    assert.deepEqual(partOf(relay.fake.realtime.at(-1), "session")["instructions"], session.instructions);
    const [first, last] = [quotaOf(relay).of("authorize")[0], quotaOf(relay).of("reserve").at(-1)];
    assert.deepEqual(last?.keyHash, first?.keyHash, "its holds are the key's");
    assert.match(
      String((await refused(relay, { model: "timed", options: { headers } }))[1]["message"]),
      /client secret/,
    );
  });

  test("open nothing else, nor anything when they are changed", async () => {
    const { answer } = await make({ session });
    const value = String(answer["value"]);
    const changed = `${value.slice(0, -2)}${value.endsWith("AA") ? "BB" : "AA"}`;
    const headers = { authorization: `Bearer ${changed}` };
    assert.equal((await refused(relay, { options: { headers } }))[0], 401);
  });

  test("are not made of what no session may have, nor for another model or longer than two hours", async () => {
    const rows: [body: unknown, message: RegExp][] = [
      [{}, /session is required/],
      [{ session: { type: "realtime" } }, /session\.model is required/],
      [{ session: { ...session, tools: [{ type: "web_search" }] } }, /web_search/],
      [{ session, expires_after: { seconds: 7_201 } }, /expires_after\.seconds/],
      [{ session: { ...session, instructions: "x".repeat(70_000) } }, /too large/],
      [{ session: { ...session, model: "m-none" } }, /m-none does not exist/],
      [{ session: { ...session, model: "hear" } }, /audio\/transcriptions/],
    ];
    for (const [body, message] of rows) {
      const { answer } = await make(body);
      assert.match(String((answer["error"] as Json)["message"]), message);
    }
    assert.equal((await make({ session }, {})).status, 401);
  });

  test("WebRTC and SIP are refused by name", async () => {
    const response = await fetch(`${relay.url}/v1/realtime/calls`, { method: "POST", headers: key, body: "v=0" });
    assert.equal(response.status, 404);
    assert.match(await response.text(), /Invalid URL \(POST \/v1\/realtime\/calls: WebRTC and SIP are not supported/);
  });
});
