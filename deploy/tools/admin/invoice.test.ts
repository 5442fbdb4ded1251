import assert from "node:assert/strict";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { formatUsd } from "#shared/money/money.ts";
import { readDecimal, toNanos } from "./decimal.ts";
import { runAgainst } from "./testing/stub-services.ts";

const columns = "day=date,model=model,cost=cost_usd,input_tokens=prompt,output_tokens=completion";

/** Loads a file with these lines. */
async function load(csv: string, ...more: string[]) {
  await using folder = await mkdtempDisposable(join(tmpdir(), "admin-invoice-"));
  const file = join(folder.path, "november.csv");
  await writeFile(file, csv);
  const loadInvoice = ({ rows }: Record<string, unknown>) => ({ added: (rows as object[]).length });
  const words = ["invoice", "load", file, "--upstream", "openai", "--columns", columns, ...more];
  return await runAgainst({ loadInvoice }, ...words);
}

const heading = "date,model,project,cost_usd,prompt,completion\n";

test("rows of a day and model are added up exactly and rounded once", async () => {
  const csv = `\uFEFF${heading}2026-11-01,gpt-5,a,0.1000000004,10,5\r
2026-11-01,gpt-5,"b, c",0.2000000003,1,\r
2026-11-01T23:30:00-02:00,gpt-5,a,1.25e-05,1,1\r

2026-11-01,gpt-5-mini,a,-3,0,0\r
`;
  const { code, answer, aside, asked } = await load(csv);
  assert.deepEqual([code, aside], [0, ""]);
  assert.match(answer, /^added +3\nreplaced +0\nbilled in USD +-2\.699987499\n$/);
  const usage = (inputTokens: string, outputTokens: string) => ({ inputTokens, outputTokens });
  assert.partialDeepStrictEqual(asked, [
    [
      "loadInvoice",
      {
        upstream: "openai",
        invoiceId: "november.csv",
        rows: [
          { day: "2026-11-01", model: "gpt-5", costNanos: "300000001", usage: usage("11", "5") },
          { day: "2026-11-02", model: "gpt-5", costNanos: "12500", usage: usage("1", "1") },
          { day: "2026-11-01", model: "gpt-5-mini", costNanos: "-3000000000" },
        ],
      },
    ],
  ]);
});

test("what cannot be read is named by its line, and nothing is loaded", async () => {
  const csv = `${heading}2026-11-01,gpt-5,a,1,1,1
2026-02-30,gpt-5,a,1,1,1
01/11/2026,gpt-5,a,1,1,1
2026-11-01,,a,1,1,1
2026-11-01,gpt-5,a,one,1,1
2026-11-01,gpt-5,a,"1,5",1,1
2026-11-01,gpt-5,a,1,1.5,1
`;
  const { code, aside, asked } = await load(csv);
  assert.equal(code, 1);
  assert.deepEqual(asked, []);
  const [, problems = ""] = aside.split("november.csv: ");
  assert.deepEqual(problems.trimEnd().split("; "), [
    'line 3: "2026-02-30" is not a day',
    'line 4: "01/11/2026" is not a day',
    "line 5: no model",
    'line 6: "one" is not an amount',
    'line 7: "1,5" is not an amount',
    'line 8: "1.5" is not a count for prompt',
  ]);
});

test("lines without model and cost are left out and counted; the id of the invoice may be given", async () => {
  const { aside, asked } = await load(`${heading}2026-11-01,,,,,\n2026-11-02,gpt-5,a,1,,\n`, "--id", "inv-7");
  assert.equal(aside, "1 lines without model and cost were left out\n");
  assert.partialDeepStrictEqual(asked[0]?.[1], { invoiceId: "inv-7", rows: [{ day: "2026-11-02" }] });
});

test("a file that lacks a column, has a broken line or is not there is told in one sentence", async () => {
  const lacking = await load("date,model\n2026-11-01,gpt-5\n");
  assert.match(lacking.aside, /^error: the file has no column cost_usd, prompt, completion; it has date, model\n$/);
  assert.match(
    (await load(`${heading}2026-11-01,gpt-5\n`)).aside,
    /^error: .*: Invalid Record Length: .* on line 2\n$/,
  );
  const gone = ["invoice", "load", "/nowhere.csv", "--upstream", "openai", "--columns", columns];
  assert.match((await runAgainst({}, ...gone)).aside, /^error: ENOENT: no such file/);
});

test("columns that make no sense are refused before the file is read", async () => {
  for (const [given, sentence] of [
    ["day=a,model=b", /day, model and cost need their columns/],
    ["day=a,model=b,cost=c,tokens=d", /"tokens=d" is not NAME=HEADING/],
    ["day", /"day" is not NAME=HEADING/],
  ] as const) {
    const ended = await runAgainst({}, "invoice", "load", "f.csv", "--upstream", "openai", "--columns", given);
    assert.deepEqual([ended.code, ended.asked], [1, []]);
    assert.match(ended.aside, sentence);
  }
});

test("many rows are sent in parts", async () => {
  const rows = Array.from({ length: 10_001 }, (_, index) => `2026-11-01,model-${index},a,1,1,1`);
  const { asked, answer } = await load(`${heading}${rows.join("\n")}\n`);
  assert.deepEqual(
    asked.map(([, request]) => (request as { rows: object[] }).rows.length),
    [10_000, 1],
  );
  assert.match(answer, /^added +10001$/m);
});

const compare = ["invoice", "compare", "--upstream", "openai", "--from", "2026-11-01", "--until", "2026-12-01"];
const row = { day: "2026-11-01", model: "gpt-5", billedNanos: 1_000n, expectedNanos: 995n, chargedNanos: 1_300n };

test("compare shows differences in USD and percent, and ends with 1 when a row is off by more than the tolerance", async () => {
  const rows = [
    { ...row, calls: 3n },
    { ...row, model: "gpt-5-mini", expectedNanos: 994n, calls: 3n, unpricedCalls: 2n },
    { ...row, model: "o5", expectedNanos: 0n, chargedNanos: 0n },
    { ...row, model: "o6", billedNanos: 0n, calls: 1n },
  ];
  const ended = await runAgainst({ compareInvoice: { rows } }, ...compare);
  assert.equal(ended.code, 1);
  assert.equal(
    ended.answer,
    [
      "day         model       billed in USD  expected in USD  difference in USD  percent  charged in USD  calls  remark",
      "2026-11-01  gpt-5         0.000001000      0.000000995        0.000000005     0.50     0.000001300      3",
      "2026-11-01  gpt-5-mini    0.000001000      0.000000994        0.000000006     0.60     0.000001300      3  off, 2 calls without cost prices",
      "2026-11-01  o5            0.000001000      0.000000000        0.000001000   100.00     0.000000000      0  off, not in the ledger",
      "2026-11-01  o6            0.000000000      0.000000995       -0.000000995        -     0.000001300      1  off, not billed",
      "",
    ].join("\n"),
  );
  assert.equal(ended.aside, "3 of 4 rows are off by more than the tolerance\n");
});

test("the tolerance is exact, and a comparison within it ends with 0", async () => {
  const codeOf = async (expectedNanos: bigint, ...more: string[]) =>
    (await runAgainst({ compareInvoice: { rows: [{ ...row, expectedNanos }] } }, ...compare, ...more)).code;
  assert.equal(await codeOf(995n), 0);
  assert.equal(await codeOf(1_005n), 0);
  assert.equal(await codeOf(1_006n), 1);
  assert.equal(await codeOf(1_006n, "--tolerance", "0.6"), 0);
  assert.equal(await codeOf(1_000n, "--tolerance", "0"), 0);
  assert.equal(await codeOf(999n, "--tolerance", "0"), 1);
  assert.equal((await runAgainst({}, ...compare)).answer, "neither billed nor booked\n");
  assert.match((await runAgainst({}, ...compare, "--tolerance", "-1")).aside, /must be a percentage/);
});

test("decimals are read exactly: as integers of nano-USD they survive, in any form of writing", () => {
  const most = 10n ** 15n - 1n;
  fc.assert(
    fc.property(fc.bigInt({ min: -most, max: most }), (nanos) => {
      assert.equal(toNanos(readDecimal(formatUsd(nanos)) ?? 0n), nanos);
      assert.equal(toNanos(readDecimal(`${nanos}e-9`) ?? 0n), nanos);
    }),
  );
  assert.equal(toNanos(readDecimal("0.0000000005") ?? 0n), 1n);
  assert.equal(toNanos(readDecimal("-0.0000000005") ?? 0n), -1n);
  assert.equal(toNanos(readDecimal("0.0000000004999999999999999") ?? 0n), 0n);
  for (const wrong of ["", ".5", "1.", "1,5", "NaN", "Infinity", "0x1", "1e99", "$1", " 1"]) {
    assert.equal(readDecimal(wrong), undefined, wrong);
  }
});
