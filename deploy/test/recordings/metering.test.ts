import assert from "node:assert/strict";
import { test } from "node:test";
import { upstreamDialects } from "../../../services/relay/dialects/conversions.ts";
import {
  emptyTally,
  type Envelope,
  type Tally,
  type UpstreamDialect,
  type UpstreamDialectName,
} from "../../../services/relay/dialects/dialect.ts";
import { createEventCursor } from "../../../services/relay/dialects/event-cursor.ts";
import { dialects } from "../../../services/relay/dialects/index.ts";
import { readJsonBody } from "../../../services/relay/dialects/json/request-body.ts";
import { billOf, type Bill } from "./bill.ts";
import { formatOf, isStreamed, recordedEvents, type ProviderFormat } from "./reading.ts";
import { findRecordings, readExchanges, type Exchange } from "./recordings.ts";

const folder = findRecordings(process.env);
const skip = folder === undefined ? "no recordings here: set RECORDINGS_DIR" : false;

const dialectNames = {
  chat: "openai-chat",
  responses: "openai-responses",
  messages: "anthropic-messages",
  gemini: "gemini-generate",
} as const satisfies Record<ProviderFormat, UpstreamDialectName>;

/** What is charged of a tally, as far as it is told by the answer; media and tools of a request are none of that. */
const chargedOf = ({ counted, usage }: Tally): Bill =>
  Object.fromEntries(
    Object.entries({ ...counted, ...usage })
      .filter(([, count]) => count !== 0n)
      .map(([bucket, count]) => [bucket, Number(count)]),
  );

type MeteredCall = { tally: Tally; verdicts: unknown[]; end: string };

/** Any request will do: what was answered is in the answer. */
const envelopeOf = (): Envelope =>
  dialects["openai-chat"].readEnvelope(readJsonBody(Buffer.from(`{"model":"m","messages":[]}`)), "m");

function meterStream(dialect: UpstreamDialect, exchange: Exchange): MeteredCall {
  const tap = dialect.createTap({ ...envelopeOf(), wantsStreamUsage: true }, (error) => error);
  const cursor = createEventCursor(16_777_216);
  const tally = emptyTally();
  const verdicts: unknown[] = [];
  cursor.push(Buffer.from(`${exchange.replyBody}\n\n`));
  for (let event = cursor.next(); event; event = cursor.next()) verdicts.push(tap.read(event, tally));
  return { tally, verdicts, end: tap.end(tally) };
}

function meter(exchange: Exchange, format: ProviderFormat): Tally | undefined {
  const dialect = upstreamDialects[dialectNames[format]];
  if (!isStreamed(exchange)) return dialect.readReply(JSON.parse(exchange.replyBody), envelopeOf());
  const { tally, verdicts, end } = meterStream(dialect, exchange);
  assert.deepEqual([...new Set(verdicts)], ["pass"], exchange.name);
  assert.equal(end, "", exchange.name);
  return tally;
}

test(
  "recorded answers of providers are taken for whole, untouched, and charged for exactly what the provider bills",
  { skip },
  (context) => {
    const exchanges = readExchanges(folder ?? "").filter(({ status }) => status === 200);
    let checked = 0;
    for (const exchange of exchanges) {
      const format = formatOf(exchange);
      if (!format) continue;
      checked += 1;
      const tally = meter(exchange, format);
      // Gemini's streams have no end mark: they are whole when they have said why they ended.
      const isWhole = tally?.isComplete || (format === "gemini" && tally?.hasFinish);
      assert.ok(tally && isWhole && tally.hasContent && !tally.isFailed, `${exchange.name} is whole`);
      const bill = billOf(format, recordedEvents(exchange));
      if (bill) assert.deepEqual(chargedOf(tally), bill, exchange.name);
    }
    assert.ok(checked > 0, "there were answers to check");
    context.diagnostic(`${checked} recorded answers of ${exchanges.length} exchanges`);
  },
);
