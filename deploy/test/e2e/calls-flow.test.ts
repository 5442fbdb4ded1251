import assert from "node:assert/strict";
import { createServer, request, type IncomingMessage } from "node:http";
import { after, describe, test } from "node:test";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { until } from "#shared/testing/until.ts";
import { bodyOf, chat, jsonEventsOf, makeCall, messages, ridOf, sides } from "./ask.ts";
import { modelOn, upstreamAt } from "./catalog.ts";
import { type FixedAnswer, startFixedUpstream } from "./fixed-upstream.ts";
import { sharedWorldWith } from "./shared-world.ts";

const bulk = await startBulkUpstream(200 * 1024 * 1024);
after(() => bulk.close());
const odd = await startFixedUpstream(oddAnswers());
after(() => odd.close());
const world = await sharedWorldWith(() => ({
  upstreams: { bulk: upstreamAt(bulk.url), odd: upstreamAt(odd.url) },
  models: { "bulk-model": modelOn("bulk"), "odd-model": modelOn("odd") },
}));
const { relayUrl } = world;
const customer = await world.createCustomer();

/** An upstream that streams one huge chat answer, as fast as the other side takes it, and counts what it took. */
async function startBulkUpstream(totalBytes: number) {
  const choice = { index: 0, delta: { content: "x".repeat(65_536) }, finish_reason: null };
  const frame = Buffer.from(`data: ${JSON.stringify({ choices: [choice] })}\n\n`);
  const end = Buffer.from(
    [
      JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
      JSON.stringify({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 } }),
      "[DONE]",
    ]
      .map((data) => `data: ${data}\n\n`)
      .join(""),
  );
  const state = { takenBytes: 0, frames: Math.ceil(totalBytes / frame.length), isWhole: false };
  const server = createServer((asked, answer) => {
    asked.resume();
    answer.writeHead(200, { "content-type": "text/event-stream" });
    let sent = 0;
    const pour = (): void => {
      while (sent < state.frames) {
        sent += 1;
        const isFlowing = answer.write(frame);
        state.takenBytes += frame.length;
        if (!isFlowing) return void answer.once("drain", pour);
      }
      answer.end(end, () => (state.isWhole = true));
    };
    pour();
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${port}`,
    state,
    frameBytes: frame.length,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

describe("streamed answers", () => {
  for (const side of sides) {
    test(`API spec, What the service does: 4. without buffering: the first chunk comes before the upstream sends the second; API spec, Events: The service emits: HTTP 200 first (${side.path})`, async () => {
      const leaving = new AbortController();
      // After one chunk the upstream sends nothing more, ever.
      const behaviour = { text: "first second", fault: { kind: "stall" as const, afterChunks: 1 } };
      const response = await fetch(`${relayUrl}${side.path}`, {
        method: "POST",
        headers: side.headers(customer.secret),
        body: bodyOf({ side, isStream: true, behaviour }),
        signal: leaving.signal,
      });
      assert.equal(response.status, 200);
      let text = "";
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      while (!text.includes("first")) {
        const { value } = await reader.read();
        text += Buffer.from(value ?? []).toString();
      }
      assert.ok(!text.includes("second"));
      assert.equal(response.headers.get("content-type"), "text/event-stream; charset=utf-8");
      leaving.abort();
      await world.untilBooked(customer.accountId, ridOf(response));
    });

    test(`API spec, What the service does: 4. forwarded as server-sent events (SSE), in order, as they are; API spec, Events: The service emits SSE data forwarded from upstream in order without buffering (${side.path})`, async () => {
      const framings = [
        {},
        { isCrlf: true, hasComments: true },
        { bytePieces: 7, isTight: true },
        { coalescedFrames: 5 },
      ];
      for (const framing of framings) {
        const text = "zwölf Boxkämpfer jagen Viktor 😀 quer über den großen Sylter Deich";
        const call = { side, isStream: true, behaviour: { text, framing } };
        const reply = await makeCall(relayUrl, customer.secret, {
          ...call,
          ...(side.format === "A" && { more: { stream_options: { include_usage: true } } }),
        });
        const pieces = jsonEventsOf(reply.text).map((event) => {
          const choice = (event["choices"] as { delta: { content?: string } }[] | undefined)?.[0];
          return choice?.delta.content ?? (event["delta"] as { text?: string } | undefined)?.text ?? "";
        });
        assert.equal(pieces.join(""), text);
        assert.equal(reply.text.includes("\r\n"), "isCrlf" in framing);
        assert.match(reply.text, side.format === "A" ? /data: ?\[DONE\]\s*$/ : /event: ?message_stop[^]*$/);
      }
    });
  }
});

/** Answers as a provider might well send them: unknown fields and events, odd spellings, comments, both line ends. */
function oddAnswers(): Record<string, FixedAnswer> {
  const chatUsage = `"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"x":1.0e0}`;
  const messageUsage = `"usage":{"input_tokens":3,"output_tokens":2,"server_tool_use":null}`;
  const lines = (...texts: string[]): Buffer => Buffer.from(texts.join(""));
  return {
    [chat.path]: {
      whole: lines(
        String.raw` {"odd" : [1E+2,-0, 12345678901234567890],"choices":[ {"message":{"content":"zwölf \u00fc 😀"}`,
        `,"finish_reason":"stop"}],\r\n\t${chatUsage}}\n\n`,
      ),
      stream: lines(
        `: a comment\r\n\r\n`,
        `retry: 5\nid:7\ndata:{"choices":[{"index":0,"delta":{"content":"zwölf 😀"},"odd":1.0e0}] }   \n\n`,
        `event: unheard-of\r\ndata: {"a" : [ ]}\r\n\r\n`,
        `data: {"choices":[{"index":0,\ndata: "delta":{},"finish_reason":"stop"}]}\n\n`,
        `data: {"choices":[],${chatUsage}}\n\ndata: [DONE]\n\n`,
      ),
    },
    [messages.path]: {
      whole: lines(
        String.raw`{"content":[{"type":"unheard_of","a":1.0e0},{"type":"text","text":"zwölf \u00fc 😀"}],`,
        `"stop_reason":"end_turn", ${messageUsage} }`,
      ),
      stream: lines(
        `event: message_start\ndata: {"type":"message_start","message":{${messageUsage}}}\n\n: x\n\n`,
        `event: unheard_of\r\ndata: {"type":"unheard_of"}\r\n\r\n`,
        `event:content_block_delta\ndata:{"type":"content_block_delta",`,
        `"delta":{"type":"text_delta","text":"ü 😀"}}\n\n`,
        `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},${messageUsage}}\n\n`,
        `event: message_stop\ndata: {"type":"message_stop", "odd":1.0e0}\n\n`,
      ),
    },
  };
}

describe("API spec, What the service does: 1. It accepts requests in Format A or Format B, sends them to the upstream API of the provider that runs the model, and returns the upstream answer. Byte for byte", () => {
  for (const side of sides) {
    for (const isStream of [false, true]) {
      test(`${side.path}, ${isStream ? "streamed" : "whole"}`, async () => {
        const own = await world.createCustomer();
        const more = side.format === "A" && isStream ? { stream_options: { include_usage: true } } : {};
        const body = bodyOf({ side, model: "odd-model", isStream, more });
        const response = await fetch(`${relayUrl}${side.path}`, {
          method: "POST",
          headers: side.headers(own.secret),
          body,
        });
        const bytes = Buffer.from(await response.arrayBuffer());
        const sent = oddAnswers()[side.path]?.[isStream ? "stream" : "whole"];
        assert.equal(bytes.toString("latin1"), sent?.toString("latin1"));
        const line = await world.untilBooked(own.accountId, ridOf(response));
        assert.equal(line.usage.endCause, EndCause.COMPLETE);
        assert.deepEqual([line.usage.usage?.inputTokens, line.usage.usage?.outputTokens], [3n, 2n]);
      });
    }
  }
});

describe("back-pressure both ways", () => {
  test("a caller who does not read pauses the upstream: of 200 MB only what buffers hold is taken", async () => {
    const rich = await world.createCustomer({ creditNanos: 5_000_000_000_000n });
    const answer = await openUnread(rich.secret);
    let before = -1;
    let stillPolls = 0;
    await until(
      "the upstream stands still",
      () => {
        stillPolls = bulk.state.takenBytes === before ? stillPolls + 1 : 0;
        before = bulk.state.takenBytes;
        return stillPolls >= 25;
      },
      30_000,
    );
    assert.ok(before > 0 && before < 48 * 1024 * 1024, `the upstream was rid of ${before} bytes`);
    assert.equal(bulk.state.isWhole, false);

    // It was paused, not cut: who reads on gets all of it.
    let contentBytes = 0;
    let last = "";
    for await (const chunk of answer) {
      contentBytes += (chunk as Buffer).length;
      last = (chunk as Buffer).toString("latin1").slice(-300);
    }
    assert.ok(contentBytes >= bulk.state.frames * bulk.frameBytes);
    assert.match(last, /"finish_reason":"stop"[^]*data: \[DONE\]\s*$/);
    const line = await world.untilBooked(rich.accountId, String(answer.headers["x-request-id"]));
    assert.equal(line.usage.endCause, EndCause.COMPLETE);
    assert.deepEqual([line.usage.usage?.inputTokens, line.usage.usage?.outputTokens], [5n, 7n]);
  });
});

/** Starts a call of the bulk model and leaves its answer unread. */
function openUnread(secret: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const asking = request(`${relayUrl}${chat.path}`, { method: "POST", headers: chat.headers(secret), agent: false });
    asking.on("error", reject).on("response", resolve);
    asking.end(bodyOf({ side: chat, model: "bulk-model", isStream: true }));
  });
}
