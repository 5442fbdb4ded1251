import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempDisposable, readdir, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { parse } from "csv-parse/sync";
import { BillingService, LineKind } from "#proto/billing/v1/billing_pb.ts";
import { EndCause, RecordKind, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { serverStreamHandlers, type ServerStreamHandlers } from "#shared/grpc/stream.ts";
import { serveGrpc } from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";
import { runAgainst } from "./testing/stub-services.ts";

const rid = "019a9f3c-0000-7000-8000-000000000001";
const lineId = "019aa462-6400-7000-8000-000000000002";
const at = timestampFromDate(new Date("2026-11-21T10:11:12.345Z"));
const days = ["--from", "2026-11-20", "--until", "2026-11-22"];

const usage = {
  rid,
  kind: RecordKind.FINAL,
  keyId: "key_1",
  endpoint: "/v1/chat/completions",
  modelRequested: "gpt-5",
  modelServed: "gpt-5-2026",
  upstream: "openai",
  priceVersion: "p1",
  costNanos: 1_500n,
  upstreamCostNanos: 900n,
  endCause: EndCause.CLIENT_GONE,
  usageSource: UsageSource.PROVIDER_INPUT,
  httpStatus: 200,
  relaySession: "s1",
  sequence: 7n,
  usage: { inputTokens: 12n, outputTokens: 34n },
};
const charge = { lineId, accountId: "acct_1", kind: LineKind.CHARGE, amountNanos: -1_500n, rid, bookedAt: at, usage };
const credit = {
  lineId,
  accountId: "acct_1",
  kind: LineKind.CREDIT,
  amountNanos: 5_000_000_000n,
  reference: "=cmd()",
  note: 'says "hi",\nand more',
  bookedAt: at,
};

const header = [
  "day,line_id,booked_at,account_id,kind,amount_usd,amount_nanos,rid,reference,note,key_id,endpoint,model_requested",
  "model_served,upstream,price_version,end_cause,usage_source,http_status,started_at,ended_at,call_cost_nanos",
  "upstream_cost_nanos,relay_session,sequence,input_tokens,cache_read_tokens,cache_write_5m_tokens",
  "cache_write_1h_tokens,output_tokens,reasoning_tokens,audio_input_tokens,audio_output_tokens,image_input_tokens",
  "image_output_tokens,images,characters,media_ms,tool_calls,requests",
  "web_searches,web_fetches,file_searches,code_sessions,search_sources,other_models_nanos",
].join(",");

const read = (csv: string) => parse(csv, { columns: true }) as Record<string, string>[];

test("the header of a CSV export is fixed, and an export without lines has it, too", async () => {
  const { answer, aside } = await runAgainst({}, "export", ...days);
  assert.deepEqual([answer, aside], [`${header}\n`, "0 lines\n"]);
});

test("a line as CSV: amounts exact in USD and nano-USD, units by bucket, names in words", async () => {
  const { answer, asked } = await runAgainst({ exportLines: [{ lines: [charge] }] }, "export", ...days);
  assert.deepEqual(asked, [["exportLines", { accountId: "", fromDay: "2026-11-20", untilDay: "2026-11-22" }]]);
  const [row] = read(answer);
  assert.partialDeepStrictEqual(row, {
    day: "2025-11-20",
    booked_at: "2026-11-21T10:11:12Z",
    kind: "charge",
    amount_usd: "-0.000001500",
    amount_nanos: "-1500",
    key_id: "key_1",
    model_served: "gpt-5-2026",
    end_cause: "client gone",
    usage_source: "provider input",
    call_cost_nanos: "1500",
    upstream_cost_nanos: "900",
    sequence: "7",
    input_tokens: "12",
    output_tokens: "34",
    images: "0",
  });
});

test("texts that a spreadsheet would run are made harmless, amounts are left as they are", async () => {
  const texts = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "＝1"];
  const exportLines = [{ lines: [credit, ...texts.map((note) => ({ ...charge, note }))] }];
  const rows = read((await runAgainst({ exportLines }, "export", ...days)).answer);
  assert.deepEqual(
    rows.slice(1).map(({ note, amount_usd: amount }) => [note, amount]),
    texts.map((text) => [`'${text}`, "-0.000001500"]),
  );
  assert.partialDeepStrictEqual(rows[0], {
    day: "2025-11-21",
    reference: "'=cmd()",
    note: 'says "hi",\nand more',
    amount_usd: "5.000000000",
    input_tokens: "",
  });
});

test("units are what a line adds: those of an adjustment lack what its provisional line has told", async () => {
  const provisional = {
    ...charge,
    kind: LineKind.PROVISIONAL_CHARGE,
    usage: { ...usage, usage: { outputTokens: 4n } },
  };
  const adjustment = { ...charge, kind: LineKind.FINAL_ADJUSTMENT };
  const exportLines = [{ lines: [provisional] }, { lines: [adjustment, { ...adjustment, accountId: "acct_2" }] }];
  const rows = read((await runAgainst({ exportLines }, "export", ...days)).answer);
  assert.deepEqual(
    rows.map(({ input_tokens: input, output_tokens: output }) => [input, output]),
    [
      ["0", "4"],
      ["12", "30"],
      ["12", "34"],
    ],
  );
});

test("as NDJSON each line is one JSON document in the field names of proto/", async () => {
  const exportLines = [{ lines: [charge] }, { lines: [credit] }];
  const words = ["export", ...days, "--format", "ndjson", "--account", "acct_1"];
  const { answer, asked } = await runAgainst({ exportLines }, ...words);
  assert.partialDeepStrictEqual(asked[0]?.[1], { accountId: "acct_1" });
  const documents = answer
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as object);
  assert.equal(documents.length, 2);
  assert.partialDeepStrictEqual(documents[0], {
    amountNanos: "-1500",
    kind: "LINE_KIND_CHARGE",
    usage: { usage: { outputTokens: "34" } },
  });
  assert.partialDeepStrictEqual(documents[1], { reference: "=cmd()" });
});

test("an export to a file is there whole or not at all", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "admin-export-"));
  const file = join(folder.path, "lines.csv");
  const words = ["export", ...days, "--output", file];
  const broken = await runAgainst(
    { exportLines: [{ lines: [charge] }, new ServiceError("unavailable", "gone")] },
    ...words,
  );
  assert.equal(broken.code, 1);
  assert.match(broken.aside, /is unavailable: gone\n$/);
  assert.deepEqual(await readdir(folder.path), []);
  const ended = await runAgainst({ exportLines: [{ lines: [charge, credit] }] }, ...words);
  assert.deepEqual([ended.code, ended.answer], [0, `2 lines in ${file}\n`]);
  assert.equal(read(await readFile(file, "utf8")).length, 2);
  assert.deepEqual(await readdir(folder.path), ["lines.csv"]);
  const nowhere = await runAgainst({ exportLines: [] }, "export", ...days, "--output", join(file, "x"));
  assert.match(nowhere.aside, /^error: ENOTDIR/);
});

test("an export whose reader leaves ends at once, without a word, and the service hears of it", async () => {
  const gone = Promise.withResolvers<void>();
  const streams: ServerStreamHandlers<typeof BillingService> = {
    async *exportLines(_request, signal) {
      signal.addEventListener("abort", () => gone.resolve());
      while (!signal.aborted) yield { lines: Array.from({ length: 100 }, () => charge) };
    },
    async *replay() {},
    async *listCloseLines() {},
    async *restoreDay() {},
  };
  const service = serverStreamHandlers(BillingService, streams, createLog("stub", "silent"));
  await using server = await serveGrpc([[BillingService, service]], { host: "127.0.0.1", port: 0, drainMs: 100 });
  const address = `127.0.0.1:${server.port}`;
  const child = spawn(process.execPath, [join(import.meta.dirname, "main.ts"), "export", ...days], {
    env: { ALLOW_PLAIN_GRPC: "always", BILLING_ADDRESS: address, AUTH_QUOTA_ADDRESS: address },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let aside = "";
  child.stderr.on("data", (bytes: Buffer) => (aside += String(bytes)));
  child.stdout.once("data", () => child.stdout.destroy());
  const [code] = (await once(child, "close")) as [number];
  assert.deepEqual([code, aside], [1, ""]);
  await gone.promise;
});
