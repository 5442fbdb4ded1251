import assert from "node:assert/strict";
import { test } from "node:test";
import { nextStep, nextToolStep, type Facts } from "./decide.ts";

const facts: Facts = {
  platform: "linux",
  missing: ["redis", "nats", "postgres"],
  apt: "root",
  hasCompose: true,
  failed: [],
};

test("nothing is installed when every store is given or has its program here", () => {
  assert.deepEqual(nextStep({ ...facts, missing: [] }), { kind: "ready" });
});

test("apt-get comes before containers, as root or through sudo, and only for what is missing", () => {
  assert.deepEqual(nextStep({ ...facts, missing: ["nats"] }), {
    kind: "apt",
    withSudo: false,
    packages: ["nats-server"],
  });
  const packages = ["redis-server", "nats-server", "postgresql"];
  assert.deepEqual(nextStep({ ...facts, apt: "sudo" }), { kind: "apt", withSudo: true, packages });
});

test("containers serve what apt-get cannot install", () => {
  assert.deepEqual(nextStep({ ...facts, apt: "none" }), { kind: "compose", stores: facts.missing });
  const afterApt: Facts = { ...facts, missing: ["nats"], failed: ["apt"] };
  assert.deepEqual(nextStep(afterApt), { kind: "compose", stores: ["nats"] });
});

test("when nothing is left, one message names what to install on each system, and the variables", () => {
  const step = nextStep({ ...facts, missing: ["redis", "postgres"], failed: ["apt"], hasCompose: false });
  assert.equal(step.kind, "impossible");
  const message = "message" in step ? step.message : "";
  assert.match(message, /Missing on this machine: redis, postgres \(tried: apt;/);
  assert.match(message, /sudo apt-get install redis-server postgresql\n/);
  assert.match(message, /brew install redis postgresql@17\n/);
  assert.match(message, /REDIS_URL=\S+ POSTGRES_URL=\S+ npm start/);
  assert.doesNotMatch(message, /nats/);
});

test("the advice begins with the system that it is read on", () => {
  const step = nextStep({ ...facts, platform: "darwin", apt: "none", hasCompose: false });
  assert.match("message" in step ? step.message : "", /start again:\n {2}macOS/);
});

test("missing tools are installed, or their tests are skipped with a word; containers and stores have no part in it", () => {
  assert.deepEqual(nextToolStep({ missing: [], apt: "root", failed: [] }), { kind: "ready" });
  const installed = nextToolStep({ missing: ["browser", "promtool", "prometheus"], apt: "sudo", failed: [] });
  assert.deepEqual(installed, { kind: "apt", withSudo: true, packages: ["chromium", "prometheus"] });
  for (const without of [
    nextToolStep({ missing: ["browser", "buildah"], apt: "none", failed: [] }),
    nextToolStep({ missing: ["headless-shell", "browser", "buildah"], apt: "root", failed: ["apt"] }),
  ]) {
    assert.ok("messages" in without && without.messages.length === 2);
    const [browser, buildah] = without.messages;
    assert.match(browser ?? "", /browser tests are skipped.*CHROMIUM_PATH/);
    assert.equal(buildah, "buildah tests are skipped, for there is no buildah: install Debian's package buildah");
  }
});
