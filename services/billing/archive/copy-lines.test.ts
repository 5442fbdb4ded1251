import assert from "node:assert/strict";
import { mkdtempDisposable, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { v7 } from "uuid";
import { archiveColumns, type ArchiveRow } from "../store/archive-lines.ts";
import { readLines, writeLines } from "./copy-lines.ts";
import { openFolder } from "./folder.ts";

const never = new AbortController().signal;
const day = "2026-01-31";

function makeRow(number: number): ArchiveRow {
  const values: Record<string, ArchiveRow[number]> = {
    day,
    line_id: v7(),
    kind: (number % 3) + 1,
    account_id: `acct_${Math.floor(number / 7)}`,
    key_id: number % 2 === 0 ? null : 'key\u0000"\n,',
    amount_nanos: -(2n ** 63n) + BigInt(number),
    booked_at: 1_769_860_800_123_456n,
    event: Buffer.from([0, 255, number % 256]),
    payload_hash: Buffer.alloc(32, number),
    input_tokens: 2n ** 63n - 1n,
  };
  return archiveColumns.map(({ name }) => values[name] ?? null);
}

async function* pagesOf(rows: ArchiveRow[], size: number): AsyncGenerator<ArchiveRow[]> {
  for (let at = 0; at < rows.length; at += size) yield rows.slice(at, at + size);
}

test("lines are read back as they were written, over as many files as they need, a group at a time", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "copy-lines-"));
  const place = openFolder(folder.path);
  const rows = Array.from({ length: 100 }, (_, number) => makeRow(number));
  const { totals, files } = await writeLines(place, { day, pages: pagesOf(rows, 9), fileBytes: 1 }, never);
  assert.equal(files.length, 12);
  assert.deepEqual(
    files.map(({ lines }) => lines),
    [...Array.from({ length: 11 }, () => 9), 1],
  );
  assert.deepEqual((await readdir(join(folder.path, day))).length, 12);
  const read: ArchiveRow[] = [];
  const groups: number[] = [];
  const again = await readLines(place, { files }, never, async (group) => {
    groups.push(group.length);
    read.push(...group);
  });
  assert.deepEqual(again, totals);
  assert.equal(Math.max(...groups), 9);
  const plain = (row: ArchiveRow) => row.map((value) => (value instanceof Uint8Array ? Buffer.from(value) : value));
  assert.deepEqual(read.map(plain), rows.map(plain));
  assert.deepEqual([totals.lines, totals.accounts], [100n, 15]);

  const [first, second] = files;
  assert.ok(first && second);
  const swapped = [{ ...first, name: second.name }, second];
  await assert.rejects(readLines(place, { files: swapped }, never), /is not the file that was signed/);
  await assert.rejects(readLines(place, { files: [{ ...first, name: "x" }] }, never), /the archive has no x/);
});

test("what stops meanwhile writes no more", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "copy-lines-"));
  const stopping = new AbortController();
  async function* pages(): AsyncGenerator<ArchiveRow[]> {
    yield [makeRow(0)];
    stopping.abort();
    yield [makeRow(1)];
  }
  const work = writeLines(openFolder(folder.path), { day, pages: pages() }, stopping.signal);
  await assert.rejects(work, { name: "AbortError" });
  assert.deepEqual(await readdir(folder.path), []);
});
