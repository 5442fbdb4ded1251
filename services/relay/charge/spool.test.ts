import assert from "node:assert/strict";
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync } from "node:fs";
import { rmSync, symlinkSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { startProcess } from "#shared/testing/child-process.ts";
import { until } from "#shared/testing/until.ts";
import { readFrames } from "./spool-frames.ts";
import { openSpool, type Spool, type SpoolLimits } from "./spool.ts";
import { listeningLog } from "../testing/fakes.ts";

const ridOf = (record: Uint8Array): string => Buffer.from(record).toString().split(" ", 1)[0] ?? "";
const recordOf = (rid: string, length = 20): Buffer => Buffer.from(`${rid} ${"x".repeat(length)}`);
const frameBytes = 8;
const limits: SpoolLimits = { segmentBytes: 1_000_000, maxBytes: 1_000_000_000, keptSegments: 0, syncMs: 10 };

/** A folder that is gone at the end of the test, and spools on it. */
function createFolder() {
  const folder = mkdtempSync(join(tmpdir(), "relay-spool-test-"));
  const { log, lines } = listeningLog();
  return {
    folder,
    lines,
    open: (session: string, changes: Partial<SpoolLimits> = {}) =>
      openSpool(folder, session, { log, ridOf, limits: { ...limits, ...changes } }),
    segments: () => readdirSync(folder).toSorted(),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}

const texts = (records: Iterable<Uint8Array>): string[] =>
  Array.from(records, (bytes) => Buffer.from(bytes).toString());
const appendAll = (spool: Spool, rids: string[]): void => rids.forEach((rid) => spool.append(rid, recordOf(rid)));

test("what was appended is read back, and taken over by the next process under the name of the dead session", async () => {
  using place = createFolder();
  const rids = ["r1", "r2", "r3"];
  {
    await using spool = await place.open("first");
    appendAll(spool, rids);
    assert.equal(spool.openRecords(), 3);
    assert.deepEqual(spool.unconfirmed(Infinity, 10), rids);
    assert.deepEqual(texts(spool.read(new Set(["r1", "r3"])).values()), [recordOf("r1"), recordOf("r3")].map(String));
    assert.deepEqual(spool.adopt(), new Map(), "its own records are nobody's inheritance");
  }
  await using spool = await place.open("second");
  const adopted = spool.adopt();
  assert.deepEqual([...adopted.keys()], ["first"]);
  assert.deepEqual(
    texts(adopted.get("first")?.records ?? []),
    rids.map((rid) => recordOf(rid).toString()),
  );
  assert.deepEqual(spool.unconfirmed(Infinity, 10), rids);
  assert.deepEqual(texts(spool.read(new Set(["r2"])).values()), [recordOf("r2").toString()]);
});

test("the age of the oldest record is its time here, whenever it was last asked about; checkpoints have none", async () => {
  using place = createFolder();
  await using spool = await place.open("first");
  assert.equal(spool.oldestMs(), 0);
  spool.checkpoint("running", recordOf("running"));
  assert.equal(spool.oldestMs(), 0);
  appendAll(spool, ["r1"]);
  await until("it is older", () => spool.oldestMs() > 5);
  spool.postpone("r1");
  appendAll(spool, ["r2"]);
  assert.ok(spool.oldestMs() > 5);
  for (const rid of ["r1", "r2"]) spool.confirm(rid);
  assert.equal(spool.oldestMs(), 0);
});

test("unconfirmed gives the oldest first, those not asked about since, at most as many as asked for", async () => {
  using place = createFolder();
  await using spool = await place.open("s");
  appendAll(spool, ["r1", "r2", "r3"]);
  spool.confirm("r1");
  assert.deepEqual(spool.unconfirmed(Infinity, 1), ["r2"]);
  assert.deepEqual(spool.unconfirmed(Infinity, 9), ["r2", "r3"]);
  assert.deepEqual(spool.unconfirmed(performance.now() - 60_000, 9), []);
  const askedAtMs = performance.now();
  await until("the clock goes on", () => performance.now() > askedAtMs);
  spool.postpone("r2");
  spool.postpone("not in it");
  assert.deepEqual(spool.unconfirmed(Infinity, 9), ["r3", "r2"], "behind all others");
  assert.deepEqual(spool.unconfirmed(askedAtMs, 9), ["r3"], "not asked about again in this pass");
});

/** Leaves a segment of three records behind, changed by `damage`, and opens the folder again. */
async function adoptDamaged(damage: (bytes: Buffer) => Buffer) {
  using place = createFolder();
  {
    await using spool = await place.open("dead");
    appendAll(spool, ["r1", "r2", "r3"]);
  }
  const file = join(place.folder, place.segments()[0] ?? "");
  writeFileSync(file, damage(readFileSync(file)));
  await using spool = await place.open("next");
  const rids = (spool.adopt().get("dead")?.records ?? []).map(ridOf);
  return { rids, warnings: place.lines.filter(({ level }) => level === "warn").map(({ lostBytes }) => lostBytes) };
}

test("a torn last frame loses itself and nothing before it, and is reported", async () => {
  const frame = frameBytes + recordOf("r3").length;
  for (const cut of [1, 10, frame - 1]) {
    const { rids, warnings } = await adoptDamaged((bytes) => bytes.subarray(0, bytes.length - cut));
    assert.deepEqual(rids, ["r1", "r2"], `${cut} bytes less`);
    assert.deepEqual(warnings, [frame - cut]);
  }
});

test("a flipped byte loses its record and what stands behind it, never gives a wrong one", async () => {
  const frame = frameBytes + recordOf("r2").length;
  for (const at of [frame, frame + 4, frame + frameBytes, 2 * frame - 1]) {
    const { rids, warnings } = await adoptDamaged((bytes) => {
      bytes[at] = (bytes[at] ?? 0) ^ 0x40;
      return bytes;
    });
    assert.deepEqual(rids, ["r1"], `byte ${at}`);
    assert.equal(warnings.length, 1);
  }
});

test("zeros that a power cut left behind the last record are no records", async () => {
  const { rids, warnings } = await adoptDamaged((bytes) => Buffer.concat([bytes, Buffer.alloc(4_096)]));
  assert.deepEqual(rids, ["r1", "r2", "r3"]);
  assert.deepEqual(warnings, [4_096]);
});

test("frames of any bytes come back as they went, empty input gives none", () => {
  assert.deepEqual(readFrames(Buffer.alloc(0)), { frames: [], lostBytes: 0 });
  assert.deepEqual(readFrames(Buffer.from([1, 2, 3])), { frames: [], lostBytes: 3 });
});

test("segments rotate at their size, and one whose records are all confirmed is removed", async () => {
  using place = createFolder();
  const frame = frameBytes + recordOf("r1").length;
  await using spool = await place.open("s", { segmentBytes: 2 * frame });
  appendAll(spool, ["r1", "r2", "r3", "r4", "r5"]);
  assert.equal(place.segments().length, 3);
  assert.equal(spool.bytes(), 5 * frame);
  spool.confirm("r1");
  spool.confirm("r4");
  assert.equal(place.segments().length, 3);
  spool.confirm("r2");
  assert.deepEqual(place.segments(), ["s.1.spool", "s.2.spool"]);
  assert.equal(spool.bytes(), 3 * frame);
  spool.confirm("r3");
  spool.confirm("r5");
  assert.deepEqual(place.segments(), ["s.2.spool"], "the current one stays to be written to");
  assert.equal(spool.openRecords(), 0);
  spool.confirm("r5");
  spool.confirm("never seen");
  appendAll(spool, ["r6"]);
  assert.deepEqual(texts(spool.read(new Set(["r6"])).values()), [recordOf("r6").toString()]);
});

test("a spool that is closed with everything confirmed leaves nothing behind", async () => {
  using place = createFolder();
  {
    await using spool = await place.open("s");
    appendAll(spool, ["r1"]);
    spool.confirm("r1");
  }
  assert.deepEqual(place.segments(), []);
});

test("adopted segments are removed when their records are confirmed", async () => {
  using place = createFolder();
  {
    await using spool = await place.open("dead");
    appendAll(spool, ["r1", "r2"]);
  }
  await using spool = await place.open("next");
  spool.adopt();
  spool.confirm("r1");
  assert.ok(place.segments().includes("dead.0.spool"));
  spool.confirm("r2");
  assert.ok(!place.segments().includes("dead.0.spool"));
});

test("a dead session without a record is still known by its name, so that its open holds can be ended", async () => {
  using place = createFolder();
  writeFileSync(join(place.folder, "dead.0.spool"), "");
  await using spool = await place.open("next");
  assert.deepEqual(spool.adopt(), new Map([["dead", { records: [], checkpoints: [] }]]));
  assert.ok(!place.segments().includes("dead.0.spool"));
});

test("a record that two segments hold is kept once", async () => {
  using place = createFolder();
  for (const session of ["dead-1", "dead-2"]) {
    await using spool = await place.open(session);
    appendAll(spool, ["r1"]);
  }
  await using spool = await place.open("next");
  spool.adopt();
  assert.equal(spool.openRecords(), 1);
  spool.confirm("r1");
  assert.deepEqual(
    place.segments().filter((name) => name.startsWith("dead")),
    [],
  );
});

test("a second live process is refused; after kill -9 of the first it is let in and finds every record whose append returned", async () => {
  using place = createFolder();
  const said: string[] = [];
  const writer = await startProcess({
    command: process.execPath,
    args: [join(import.meta.dirname, "../testing/spool-writer.ts"), place.folder, "killed"],
    orphanSignal: "SIGKILL",
    onLine: (line) => said.push(line),
  });
  try {
    await until("the writer has written a few segments", () => said.length > 500);
    await assert.rejects(place.open("second"), /is in use by another relay/);
    await writer.end("SIGKILL");
  } finally {
    await writer.end("SIGKILL");
  }
  await using spool = await place.open("second");
  const found = new Set((spool.adopt().get("killed")?.records ?? []).map(ridOf));
  const returned = said.filter((line) => line.startsWith("killed-"));
  assert.ok(returned.length >= 500);
  assert.deepEqual(
    returned.filter((rid) => !found.has(rid)),
    [],
  );
});

test("the same folder admits one spool after the other in one process too, never two at once", async () => {
  using place = createFolder();
  {
    await using first = await place.open("first");
    assert.equal(first.problem(), undefined);
    await assert.rejects(place.open("second"), /is in use by another relay/);
  }
  await using third = await place.open("third");
  assert.equal(third.problem(), undefined);
});

test("the cap is a problem that names itself, and passes when records are confirmed", async () => {
  using place = createFolder();
  const frame = frameBytes + recordOf("r1").length;
  await using spool = await place.open("s", { segmentBytes: frame, maxBytes: 2 * frame });
  appendAll(spool, ["r1", "r2"]);
  assert.equal(spool.problem(), undefined);
  appendAll(spool, ["r3"]);
  assert.equal(spool.problem(), "the spool is full");
  assert.equal(spool.openRecords(), 3, "a call that was admitted is still recorded");
  spool.confirm("r1");
  assert.equal(spool.problem(), undefined);
});

const hasFullDevice = existsSync("/dev/full");

test(
  "a disk without space is a problem, never an exception, and what could not be written is written once there is space",
  { skip: !hasFullDevice },
  async () => {
    using place = createFolder();
    const frame = frameBytes + recordOf("r1").length;
    await using spool = await place.open("s", { segmentBytes: frame });
    appendAll(spool, ["r1"]);
    // The next segments lead to a device that takes nothing.
    for (const next of [1, 2, 3]) symlinkSync("/dev/full", join(place.folder, `s.${next}.spool`));
    appendAll(spool, ["r2"]);
    assert.match(spool.problem() ?? "", /ENOSPC/);
    assert.ok(place.lines.some(({ level, rid }) => level === "error" && rid === "r2"));
    // No call is taken while there is a problem, so nothing but the spool itself can find out that it has passed.
    await until("the spool has found out by itself", () => spool.problem() === undefined);
    assert.deepEqual(texts(spool.read(new Set(["r1", "r2"])).values()), [recordOf("r1"), recordOf("r2")].map(String));
    appendAll(spool, ["r3"]);
    assert.deepEqual(spool.unconfirmed(Infinity, 9), ["r1", "r2", "r3"]);
  },
);

test("a folder that went away is a problem until it is back, and no descriptor of anybody else is closed meanwhile", async () => {
  using place = createFolder();
  const frame = frameBytes + recordOf("r1").length;
  await using spool = await place.open("s", { segmentBytes: frame, syncMs: 1_000_000 });
  appendAll(spool, ["r1"]);
  rmSync(place.folder, { recursive: true });
  appendAll(spool, ["r2"]);
  assert.match(spool.problem() ?? "", /ENOENT/);
  const bystander = openSync(join(tmpdir(), `${place.folder.split("/").at(-1)}-bystander`), "w");
  appendAll(spool, ["r3"]);
  assert.equal(writeSync(bystander, "still open"), 10);
  closeSync(bystander);
  mkdirSync(place.folder);
  appendAll(spool, ["r4"]);
  assert.equal(spool.problem(), undefined);
  assert.deepEqual(texts(spool.read(new Set(["r4"])).values()), [recordOf("r4").toString()]);
});

test("a checkpoint of a running call is left to whoever takes over, the last one of each call", async () => {
  using place = createFolder();
  const first = await place.open("dead", { segmentBytes: 100 });
  for (let step = 1; step <= 12; step += 1) first.checkpoint("r1", recordOf("r1", 30 + step));
  first.checkpoint("r2", recordOf("r2", 5));
  first.append("r2", recordOf("r2", 6));
  assert.deepEqual([first.openRecords(), first.unconfirmed(Infinity, 9)], [1, ["r2"]], "a checkpoint is no charge");
  assert.ok(place.segments().length <= 4, "what a later checkpoint replaced is not kept");
  await first[Symbol.asyncDispose]();
  await using second = await place.open("second", { segmentBytes: 100 });
  const { records = [], checkpoints = [] } = second.adopt().get("dead") ?? {};
  assert.deepEqual(records.map(String), [String(recordOf("r2", 6))]);
  assert.deepEqual(checkpoints.map(String), [String(recordOf("r1", 42))]);
  assert.deepEqual([...second.read(new Set(["r1", "r2"])).keys()], ["r2"]);
});

test("the charge made of a checkpoint takes its place, also for the process after the next", async () => {
  using place = createFolder();
  const first = await place.open("first");
  first.checkpoint("r1", recordOf("r1", 1));
  await first[Symbol.asyncDispose]();
  const second = await place.open("second");
  second.adopt();
  second.append("r1", recordOf("r1", 2));
  await second[Symbol.asyncDispose]();
  const third = await place.open("third");
  const adopted = third.adopt();
  assert.deepEqual(
    [...adopted.values()].flatMap(({ checkpoints }) => checkpoints),
    [],
  );
  assert.deepEqual([...adopted.values()].flatMap(({ records }) => records).map(String), [String(recordOf("r1", 2))]);
  third.confirm("r1");
  await third[Symbol.asyncDispose]();
  assert.deepEqual(place.segments(), []);
});

test("a disk that refuses a checkpoint does not stop calls from being taken; one that refuses a record does", async () => {
  using place = createFolder();
  await using spool = await place.open("s", { segmentBytes: 10 });
  rmSync(place.folder, { recursive: true });
  spool.checkpoint("r1", recordOf("r1"));
  assert.equal(spool.problem(), undefined);
  spool.append("r1", recordOf("r1"));
  assert.match(spool.problem() ?? "", /cannot be written/);
  mkdirSync(place.folder);
  await until("the record is in", () => spool.problem() === undefined);
});

test("of booked segments the newest are kept, those of processes before included, until the disk refuses", async () => {
  using place = createFolder();
  const segmentBytes = frameBytes + recordOf("r1").length;
  const rids = ["r1", "r2", "r3", "r4"];
  const texted = (spool: Spool) => spool.files().flatMap(({ file }) => texts(spool.recordsIn(file)));
  {
    await using spool = await place.open("a", { segmentBytes, keptSegments: 3 });
    appendAll(spool, rids);
    for (const rid of rids) spool.confirm(rid);
    assert.equal(spool.bytes(), segmentBytes, "kept ones are no part of what fills the spool");
  }
  assert.deepEqual(place.segments(), ["a.1.booked", "a.2.booked", "a.3.booked"]);
  await using spool = await place.open("b", { segmentBytes, keptSegments: 3 });
  assert.deepEqual(spool.adopt(), new Map(), "they are nobody's inheritance");
  appendAll(spool, ["r5"]);
  assert.deepEqual(
    texted(spool).toSorted(),
    ["r2", "r3", "r4", "r5"].map((rid) => recordOf(rid).toString()),
  );
  spool.confirm("r5");
  appendAll(spool, ["r6"]);
  assert.deepEqual(place.segments(), ["a.2.booked", "a.3.booked", "b.0.booked", "b.1.spool"]);
  assert.deepEqual(spool.recordsIn("gone"), []);
});

test("a disk that refuses loses what is booked first", { skip: !existsSync("/dev/full") }, async () => {
  using place = createFolder();
  {
    await using spool = await place.open("a", { keptSegments: 3 });
    appendAll(spool, ["r1"]);
    spool.confirm("r1");
  }
  assert.deepEqual(place.segments(), ["a.0.booked"]);
  symlinkSync("/dev/full", join(place.folder, "s.0.spool"));
  await using spool = await place.open("s", { keptSegments: 3 });
  appendAll(spool, ["r2"]);
  assert.ok(!place.segments().includes("a.0.booked"));
});
