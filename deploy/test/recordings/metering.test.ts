import assert from "node:assert/strict";
import { test } from "node:test";
import type { Units } from "#shared/money/pricing.ts";
import { emptyTally, member, type Dialect, type Tally } from "../../../services/relay/dialects/dialect.ts";
import { dialects } from "../../../services/relay/dialects/index.ts";
import { readJsonBody } from "../../../services/relay/dialects/json/request-body.ts";
import { createEventCursor } from "../../../services/relay/dialects/event-cursor.ts";
import { eventData, eventJson, readStreamEvent } from "../../../services/relay/dialects/sse.ts";
import { findRecordings, readExchanges, type Exchange } from "./recordings.ts";

const folder = findRecordings(process.env);
const skip = folder === undefined ? "no recordings here: set RECORDINGS_DIR" : false;

const endings: [string, Dialect][] = [
  ["/chat/completions", dialects["openai-chat"]],
  ["/responses", dialects["openai-responses"]],
  ["/v1/messages", dialects["anthropic-messages"]],
];

function dialectOf({ path }: Exchange): Dialect | undefined {
  return endings.find(([ending]) => path.endsWith(ending))?.[1];
}

/** All tokens; the tools that a provider ran stand beside them. */
const sum = (units: Units | undefined): bigint =>
  Object.entries(units ?? {}).reduce((total, [bucket, count]) => total + (bucket.endsWith("Tokens") ? count : 0n), 0n);

/** The provider's own total of a `usage` object, whichever of the three shapes it has. */
function totalOf(usage: unknown): bigint | undefined {
  const names = ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
  const total = member(usage, "total_tokens");
  if (typeof total === "number") return BigInt(total);
  const parts = names.map((name) => member(usage, name)).filter((count) => typeof count === "number");
  return parts.length === 0 ? undefined : BigInt(parts.reduce((all, count) => all + count, 0));
}

type MeteredCall = { tally: Tally; verdicts: unknown[]; end: string; usages: unknown[] };

function meterStream(dialect: Dialect, exchange: Exchange): MeteredCall {
  const envelope = dialect.readEnvelope(readJsonBody(Buffer.from(exchange.requestBody)), "m");
  const tap = dialect.createTap({ ...envelope, wantsStreamUsage: true }, (error) => error);
  const cursor = createEventCursor(16_777_216);
  const tally = emptyTally();
  cursor.push(Buffer.from(`${exchange.replyBody}\n\n`));
  const { bytes } = cursor;
  const events: Buffer[] = [];
  while (cursor.next()) events.push(bytes.subarray(cursor.start, cursor.end));
  const parsed = events.map((event) => eventJson(eventData(event)));
  const usages = parsed.map((event) => member(event, "usage") ?? member(member(event, "response"), "usage"));
  return {
    tally,
    verdicts: events.map((event) => tap.read(readStreamEvent(event), tally)),
    end: tap.end(tally),
    usages,
  };
}

function checkTotals(name: string, tally: Tally, usages: unknown[]): void {
  const total = usages.map(totalOf).findLast((count) => count !== undefined);
  if (total === undefined || total === 0n) return;
  assert.equal(sum(tally.usage), total, `the total of ${name}`);
}

test(
  "recorded answers of providers are taken for whole, untouched, and every token of theirs is in one bucket",
  { skip },
  (context) => {
    const exchanges = readExchanges(folder ?? "").filter(({ status }) => status === 200);
    let checked = 0;
    for (const exchange of exchanges) {
      const dialect = dialectOf(exchange);
      if (!dialect) continue;
      checked += 1;
      const envelope = dialect.readEnvelope(readJsonBody(Buffer.from(exchange.requestBody)), "m");
      if (envelope.answer === "events") {
        const { tally, verdicts, end, usages } = meterStream(dialect, exchange);
        assert.deepEqual([...new Set(verdicts)], ["pass"], exchange.name);
        assert.ok(tally.isComplete && tally.hasContent && !tally.isFailed, `${exchange.name} is whole`);
        assert.equal(end, "", exchange.name);
        checkTotals(exchange.name, tally, usages);
      } else {
        const body: unknown = JSON.parse(exchange.replyBody);
        const tally = dialect.readReply(body, envelope);
        assert.ok(tally?.isComplete && tally.hasContent, `${exchange.name} is whole`);
        assert.equal(sum(tally.usage), totalOf(member(body, "usage")), exchange.name);
      }
    }
    assert.ok(checked > 0, "there were answers to check");
    context.diagnostic(`${checked} recorded answers of ${exchanges.length} exchanges`);
  },
);
