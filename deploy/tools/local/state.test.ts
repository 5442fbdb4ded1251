import assert from "node:assert/strict";
import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { lockFolder } from "./lock.ts";
import { claimPort, openState, saveState } from "./state.ts";

async function temporaryFolder() {
  const path = await mkdtemp(join(tmpdir(), "relay-state-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}

test("a second start finds the passwords and ports of the first, in a file for its owner only", async () => {
  await using folder = await temporaryFolder();
  const first = await openState(folder.path);
  const port = await claimPort(first, "relay");
  await saveState(folder.path, first);
  const second = await openState(folder.path);
  assert.deepEqual(second, first);
  assert.equal(await claimPort(second, "relay"), port);
  assert.equal((await stat(join(folder.path, "seed.json"))).mode & 0o777, 0o600);
});

test("a state that was saved before there was video-task keeps all that it holds and gets the missing password", async () => {
  await using folder = await temporaryFolder();
  const { videoTask: _added, ...passwords } = (await openState(folder.path)).passwords;
  const before = { id: "0a1b2c3d", ports: { relay: 20_001 }, passwords, key: { keyId: "k", secret: "s" } };
  await writeFile(join(folder.path, "seed.json"), JSON.stringify(before));
  const state = await openState(folder.path);
  const { videoTask, ...others } = state.passwords;
  const { holdProofKeys, ...rest } = state;
  assert.deepEqual({ ...rest, passwords: others }, before);
  assert.equal(Buffer.from(holdProofKeys, "base64").length, 32);
  assert.match(videoTask, /^[0-9a-f]{32}$/);
  assert.deepEqual(await openState(folder.path), state, "the new password is kept, even by a start that is cut short");
});

test("a remembered port that somebody else has taken is replaced", async () => {
  await using folder = await temporaryFolder();
  const state = await openState(folder.path);
  const port = await claimPort(state, "relay");
  const stranger = createServer();
  await new Promise<void>((resolve) => stranger.listen(port, "127.0.0.1", resolve));
  try {
    const other = await claimPort(state, "relay");
    assert.notEqual(other, port);
    assert.equal(state.ports["relay"], other);
  } finally {
    stranger.close();
  }
});

test("two starts do not share a data folder, and the message names the process that holds it", async () => {
  await using folder = await temporaryFolder();
  {
    await using held = await lockFolder(folder.path);
    assert.equal(held.wasAbandoned, false);
    await assert.rejects(lockFolder(folder.path), new RegExp(`is in use by process ${process.pid}: stop that one`));
  }
  await using again = await lockFolder(folder.path);
  assert.equal(again.wasAbandoned, false);
});

test("the lock of a start that was killed is taken over, whoever has its process id or port now", async () => {
  await using folder = await temporaryFolder();
  const stranger = createServer((socket) => socket.end("other words"));
  await new Promise<void>((resolve) => stranger.listen(0, "127.0.0.1", resolve));
  const { port } = stranger.address() as { port: number };
  try {
    await writeFile(join(folder.path, "lock"), JSON.stringify({ pid: process.pid, port, token: "gone" }));
    await using lock = await lockFolder(folder.path);
    assert.equal(lock.wasAbandoned, true);
  } finally {
    stranger.close();
  }
});
