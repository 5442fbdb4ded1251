import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { startContainers } from "./compose.ts";
import { prepareStores, prepareTools, type Machine } from "./machine.ts";

/** A machine whose only programs are scripts of this test; each script notes its words in `calls`. */
async function fakeMachine(scripts: Record<string, string>, isRoot: boolean) {
  const folder = await mkdtemp(join(tmpdir(), "relay-machine-"));
  const bin = join(folder, "bin");
  const calls = join(folder, "calls");
  await mkdir(bin);
  await writeFile(calls, "");
  for (const [name, body] of Object.entries(scripts)) {
    await writeFile(join(bin, name), `#!/bin/sh\necho "${name} $*" >>"${calls}"\n${body}\n`);
    await chmod(join(bin, name), 0o755);
  }
  const said: string[] = [];
  const machine: Machine = {
    // The scripts need rm, chmod and the like; no store is found through PATH, only through `find`.
    environment: { PATH: `${bin}:/usr/bin:/bin`, POLICY_FILE: join(folder, "policy"), INSTALLED: folder },
    find: (store) => (existsSync(join(folder, store)) ? join(folder, store) : undefined),
    findTool: (tool) => (existsSync(join(folder, tool)) ? join(folder, tool) : undefined),
    isRoot,
    say: (text) => said.push(text),
  };
  return {
    machine,
    said,
    folder,
    callsOf: async (name: string) =>
      (await readFile(calls, "utf8")).split("\n").filter((line) => line.startsWith(`${name} `)),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}

const noDocker = { docker: "exit 1" };
const aptThatWorks = `case "$*" in *install*) touch "$INSTALLED/redis" "$INSTALLED/nats" "$INSTALLED/postgres" ;; esac`;

test("a machine with all programs is left alone", async () => {
  await using fake = await fakeMachine({ "apt-get": "", docker: "", sudo: "" }, true);
  for (const store of ["redis", "nats", "postgres"]) await writeFile(join(fake.folder, store), "");
  assert.deepEqual(await prepareStores(["redis", "nats", "postgres"], fake.machine), { inContainers: [] });
  assert.deepEqual(await fake.callsOf("apt-get"), []);
});

test("as root the missing packages are installed with apt-get, said before it begins, and no daemon may start", async () => {
  const apt = `[ -x "$POLICY_FILE" ] && echo "apt-get saw-policy" >>"$INSTALLED/calls"\n${aptThatWorks}`;
  await using fake = await fakeMachine({ "apt-get": apt, ...noDocker }, true);
  await writeFile(join(fake.folder, "redis"), "");
  assert.deepEqual(await prepareStores(["redis", "nats", "postgres"], fake.machine), { inContainers: [] });
  const calls = await fake.callsOf("apt-get");
  assert.ok(calls.includes("apt-get install -q -y --no-install-recommends nats-server postgresql"));
  assert.ok(calls.includes("apt-get saw-policy"));
  assert.equal(existsSync(join(fake.folder, "policy")), false, "the policy is taken away again");
  assert.deepEqual(fake.said, ["installing nats-server, postgresql with apt-get"]);
});

test("without root apt-get runs through sudo when that asks for no password", async () => {
  await using fake = await fakeMachine({ "apt-get": aptThatWorks, sudo: `shift\n"$@"`, ...noDocker }, false);
  assert.deepEqual(await prepareStores(["redis"], fake.machine), { inContainers: [] });
  assert.equal((await fake.callsOf("sudo"))[0], "sudo -n true");
  assert.match((await fake.callsOf("sudo"))[1] ?? "", /^sudo -n sh \S+install-packages.sh redis-server$/);
});

test("containers are the last resort: after apt-get has failed, and when sudo wants a password", async () => {
  await using failing = await fakeMachine({ "apt-get": `[ "$1" = --version ]`, docker: "" }, true);
  assert.deepEqual(await prepareStores(["nats"], failing.machine), { inContainers: ["nats"] });
  await using guarded = await fakeMachine({ "apt-get": "", sudo: "exit 1", docker: "" }, false);
  assert.deepEqual(await prepareStores(["nats"], guarded.machine), { inContainers: ["nats"] });
  assert.deepEqual(await guarded.callsOf("apt-get"), ["apt-get --version"]);
});

test("a docker client without an engine counts as no docker, and the message says what to install", async () => {
  const docker = `[ "$1" = compose ]`;
  await using fake = await fakeMachine({ "apt-get": "exit 1", sudo: "exit 1", docker }, false);
  await assert.rejects(prepareStores(["nats", "postgres"], fake.machine), /Missing on this machine: nats, postgres/);
});

test("missing tools are installed with apt-get, and those that are there are left alone", async () => {
  const apt = `case "$*" in *install*) touch "$INSTALLED/browser" "$INSTALLED/buildah" ;; esac`;
  await using fake = await fakeMachine({ "apt-get": apt }, true);
  await prepareTools(["browser", "buildah"], fake.machine);
  const installs = await fake.callsOf("apt-get");
  assert.ok(installs.includes("apt-get install -q -y --no-install-recommends chromium buildah"));
  await prepareTools(["browser", "buildah"], fake.machine);
  assert.equal((await fake.callsOf("apt-get")).length, installs.length);
  assert.deepEqual(fake.said, ["installing chromium, buildah with apt-get"]);
});

test("a package that cannot be had does not keep out the others, and what is still missing is said", async () => {
  const apt = `
    case "$*" in
      *install*buildah*) exit 100 ;;
      *install*chromium*) touch "$INSTALLED/browser" ;;
    esac`;
  await using fake = await fakeMachine({ "apt-get": apt }, true);
  await prepareTools(["browser", "buildah"], fake.machine);
  assert.match(fake.said.at(-1) ?? "", /^buildah tests are skipped, for there is no buildah: /);
  assert.equal(fake.said.length, 2);
});

test("where no tool can be installed it is said, and nothing fails", async () => {
  const skipped = /^browser tests are skipped, for there is no browser: .*CHROMIUM_PATH$/;
  await using failing = await fakeMachine({ "apt-get": `[ "$1" = --version ]` }, true);
  await prepareTools(["browser"], failing.machine);
  assert.match(failing.said.at(-1) ?? "", skipped);
  await using guarded = await fakeMachine({ "apt-get": "", sudo: "exit 1" }, false);
  await prepareTools(["browser"], guarded.machine);
  assert.match(guarded.said.at(-1) ?? "", skipped);
  assert.deepEqual(await guarded.callsOf("apt-get"), ["apt-get --version"]);
});

test("stores in containers answer on the ports that docker tells, and are stopped, not deleted", async () => {
  const docker = `
    case "$*" in
      *"port redis 6379") echo 127.0.0.1:1111 ;;
      *"port postgres 5432") echo 127.0.0.1:2222 ;;
    esac`;
  await using fake = await fakeMachine({ docker }, false);
  const { environment } = fake.machine;
  const options = { project: "model-relay-x", postgresPassword: "secret", environment };
  {
    await using containers = await startContainers(["redis", "postgres"], options);
    assert.deepEqual(containers.urls, {
      redis: "redis://127.0.0.1:1111",
      postgres: "postgres://postgres:secret@127.0.0.1:2222/postgres",
    });
  }
  const calls = await fake.callsOf("docker");
  assert.match(calls[0] ?? "", /compose -f \S+compose.yaml -p model-relay-x up -d --wait redis postgres$/);
  assert.match(calls.at(-1) ?? "", /-p model-relay-x stop redis postgres$/);
});
