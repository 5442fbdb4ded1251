import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { findProgram } from "#shared/testing/binaries.ts";

// The system's resolver asks a server of the test, and that in a network which no other process sees.

const folder = mkdtempSync(join(tmpdir(), "relay-rebinding-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const resolverFile = join(folder, "resolv.conf");
writeFileSync(resolverFile, "nameserver 127.0.0.1\noptions timeout:2\n");

const unshare = findProgram("unshare") ?? "unshare";
const ownNetwork = ["--user", "--map-root-user", "--net", "--mount", "sh", "-c"];
const setUp = `ip link set lo up && ip address add 8.8.8.8/32 dev lo && mount --bind "$0" /etc/resolv.conf`;

const isolated = (command: string, ...args: string[]) =>
  spawnSync(unshare, [...ownNetwork, `${setUp} && ${command}`, resolverFile, ...args], { encoding: "utf8" });

const { status, stderr } = isolated("true");
const skip = status === 0 ? false : `no network of its own can be made here: ${String(stderr).trim()}`;

test(
  "a name that turns from an address outside to one inside, at a real resolver, never leads inside",
  { skip },
  () => {
    const program = join(import.meta.dirname, "../testing/rebound.ts");
    const { stdout, stderr: said } = isolated('exec "$@"', process.execPath, program);
    const { reachedInside, ...told } = JSON.parse(stdout || assert.fail(said)) as Record<string, string | number>;
    const own = "address 127.0.0.1 of ";
    assert.deepEqual(told, {
      steady: "outside",
      first: "outside",
      second: `${own}flips.example`,
      before: `${own}flips-back.example`,
      behind: "outside",
      between: "outside",
      betweenAgain: `${own}flips-between.example`,
      both: `${own}both.example`,
      alias: `${own}alias.example`,
      redirected: `${own}alias.example`,
    });
    assert.equal(reachedInside, 0);
  },
);
