import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { globSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { after, describe, it, type TestContext } from "node:test";
import { findStoreBinary, findTool } from "#shared/testing/binaries.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { holdProofKeys } from "#shared/testing/proof-keys.ts";
import { startStores } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import { repository, run } from "../tools/checks/run.ts";
import { openBuildah } from "./buildah.ts";
import { copiedFiles } from "./context.ts";
import { makeStandIns, machineNpm } from "./stand-in.ts";
import { startInImage, type InImage } from "./start-in-image.ts";

type ImageConfig = {
  User: string;
  Env: string[];
  Entrypoint: string[];
  WorkingDir: string;
  Labels: Record<string, string>;
};
type Image = { root: string; config: ImageConfig };
type Lock = {
  packages: Record<string, Partial<Record<"dev" | "optional" | "devOptional", boolean>> & { version?: string }>;
};

const isRoot = process.getuid?.() === 0;
const hasBuildah = isRoot && findTool("buildah") !== undefined;
const skip = hasBuildah ? false : "it needs root and Debian's package buildah";
const catalog = `
upstreams:
  none: { base_url: "http://127.0.0.1:1", dialects: [openai-chat], credential: { env: CATALOG_KEY } }
models:
  m:
    owned_by: nobody
    upstreams: [{ name: none }]
    context_tokens: 1000
    max_output_tokens: 100
    price: { version: v1, input_tokens: "1.00", output_tokens: "1.00" }
`;
// Of the settings of npm that the build is given; nothing of them may stay.
const mark = randomUUID();

async function buildImage(buildah: Awaited<ReturnType<typeof openBuildah>>): Promise<Image> {
  const npm = await machineNpm();
  const postgres = findStoreBinary("postgres");
  assert.ok(postgres);
  const standIns = await makeStandIns(buildah.folder, npm, dirname(postgres));
  const settings = join(buildah.folder, "npmrc");
  await writeFile(settings, `${npm.settings}//registry.invalid/:_authToken=${mark}\n`, { mode: 0o600 });
  const bases = [
    ["docker.io/library/node:24-bookworm-slim", standIns.build],
    ["docker.io/library/postgres:17-bookworm", standIns.postgres],
    ["gcr.io/distroless/nodejs24-debian12:nonroot", standIns.runtime],
  ] as const;
  for (const [name, context] of bases) await buildah.run("bud", "--quiet", "--tag", name, context);
  const given = ["--secret", `id=npmrc,src=${settings}`, "--build-arg", "VERSION=1.2.3"];
  const words = ["bud", "--quiet", "--pull-never", ...given, "--tag", "model-relay", "--file"];
  await buildah.run(...words, join(repository, "deploy/Dockerfile"), repository);
  const inspected = JSON.parse(await buildah.run("inspect", "--type", "image", "model-relay")) as {
    OCIv1: { config: ImageConfig };
  };
  return { root: await buildah.unpack("model-relay"), config: inspected.OCIv1.config };
}

describe("the image, built from the Dockerfile on stand-ins of its bases", { skip }, async () => {
  if (!hasBuildah) return;
  const buildah = await openBuildah();
  after(() => buildah[Symbol.asyncDispose]());
  const { root, config } = await buildImage(buildah);
  const inImage = (pattern: string): string[] => globSync(pattern, { cwd: root }).toSorted();
  const start = (test: TestContext, words: string[], environment: Record<string, string> = {}): Promise<InImage> => {
    const own = Object.fromEntries(config.Env.map((line) => line.split("=", 2))) as Record<string, string>;
    const started = startInImage({
      root,
      command: [...config.Entrypoint, ...words],
      environment: { ...own, ...environment },
    });
    test.after(async () => (await started)[Symbol.asyncDispose]());
    return started;
  };

  it("runs as a user who is not root, in its folder, and tells what it is", () => {
    assert.deepEqual([config.User, config.WorkingDir], ["65532:65532", "/app"]);
    assert.deepEqual(config.Entrypoint, ["/nodejs/bin/node", "/app/deploy/image/main.ts"]);
    assert.ok(config.Env.includes("NODE_ENV=production"));
    assert.equal(config.Labels["org.opencontainers.image.version"], "1.2.3");
  });

  it("holds the files that the working copy has for it, and no other of the repository", () => {
    const files = inImage("app/{deploy,proto,services}/**/*.*").map((path) => path.slice("app/".length));
    assert.deepEqual(files, copiedFiles());
    assert.deepEqual(
      inImage("app/*"),
      ["deploy", "node_modules", "package.json", "proto", "sbom.cdx.json", "services"].map((name) => `app/${name}`),
    );
  });

  it("holds every package that runs and none of those for development, and the list of parts names each", () => {
    const { packages } = JSON.parse(readFileSync(join(repository, "package-lock.json"), "utf8")) as Lock;
    const installed = inImage("app/node_modules/**/package.json").flatMap((file) => {
      const path = file.slice("app/".length, -"/package.json".length);
      return Object.hasOwn(packages, path) ? [path] : [];
    });
    assert.deepEqual(
      installed.filter((path) => packages[path]?.dev),
      [],
    );
    const wanted = Object.entries(packages).filter(
      ([path, { dev, optional, devOptional }]) =>
        path !== "" && !(dev || optional || devOptional) && !/^node_modules\/node(-bin-setup)?(\/|$)/.test(path),
    );
    assert.deepEqual(
      wanted.map(([path]) => path).filter((path) => !installed.includes(path)),
      [],
    );
    const { components } = JSON.parse(readFileSync(join(root, "app/sbom.cdx.json"), "utf8")) as {
      components: { name: string; version: string }[];
    };
    const nameOf = (path: string): string => path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
    const named = new Set(components.map(({ name, version }) => `${name}@${version}`));
    assert.deepEqual(
      [...named].toSorted(),
      [...new Set(installed.map((path) => `${nameOf(path)}@${packages[path]?.version}`))].toSorted(),
    );
  });

  it("keeps nothing of npm's settings, of npm itself and of a second Node", async () => {
    assert.deepEqual(inImage("{,*/,*/*/}{.npmrc,.npm,npm,.yarnrc}"), []);
    assert.deepEqual(inImage("app/node_modules/{node,.bin,.cache}"), []);
    const found = await run("grep", ["-rlF", "--exclude-dir=proc", mark, root], root);
    assert.deepEqual([found.code, found.output], [1, ""]);
  });

  it("starts every command, which then misses its configuration", async (test) => {
    const commands = ["relay", "auth-quota", "billing", "video-task", "console", "migrate"];
    const missed = commands.map(async (command) => {
      const started = await start(test, [command]);
      assert.equal(await started.ended, `exit code ${command === "migrate" ? 2 : 1}`, started.output());
      assert.match(started.output(), /configuration is not usable:\n\s+.*must have required property '\w+'/);
    });
    await Promise.all(missed);
  });

  it("names its commands when it is given none that it knows", async (test) => {
    const started = await start(test, ["node"]);
    assert.equal(await started.ended, "exit code 2");
    const services = "relay, auth-quota, billing, video-task, console";
    const tools = "migrate, admin, certificates, catalog, debug, backup, restore";
    assert.equal(started.output(), `name one of: ${services}, ${tools}`);
  });

  it("checks a catalog, whose credentials it need not have", async (test) => {
    await writeFile(join(root, "etc/to-check.yaml"), catalog);
    const good = await start(test, ["catalog", "/etc/to-check.yaml"]);
    assert.equal(await good.ended, "exit code 0", good.output());
    assert.match(good.output(), /^m at none$/m);
    assert.match(good.output(), /^not here: the variable CATALOG_KEY is not set$/m);
    await writeFile(join(root, "etc/to-check.yaml"), catalog.replace("name: none", "name: mien"));
    const bad = await start(test, ["catalog", "/etc/to-check.yaml"]);
    assert.equal(await bad.ended, "exit code 1");
    assert.equal(bad.output(), "/etc/to-check.yaml:7: there is no upstream mien");
  });

  it("ends at a signal that comes before its service has begun to listen for one", async (test) => {
    const silent = createServer();
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    test.after(() => silent.close());
    const { port } = silent.address() as AddressInfo;
    const asked = new Promise<void>((resolve) =>
      silent.once("connection", (socket) => {
        socket.on("error", () => undefined);
        resolve();
      }),
    );
    const started = await start(test, ["migrate"], { DATABASE_OWNER_URL: `postgres://o:p@127.0.0.1:${port}/d` });
    await asked;
    started.signal("SIGTERM");
    assert.equal(await started.ended, "exit code 143");
  });

  it("migrates, serves and stops in good order as user 65532 without a right to write", async (test) => {
    const stores = await startStores({ redis: true, postgres: true });
    test.after(() => stores[Symbol.asyncDispose]());
    const owner = await stores.postgres.createDatabase();
    const login = new URL(owner);
    [login.username, login.password] = ["image_login", "secret"];
    const migrated = await start(test, ["migrate"], { DATABASE_OWNER_URL: owner, AUTH_QUOTA_DATABASE_URL: login.href });
    assert.equal(await migrated.ended, "exit code 0", migrated.output());
    const backup = await start(test, ["backup", "/tmp/one"], { DATABASE_OWNER_URL: owner });
    assert.equal(await backup.ended, "exit code 0", backup.output());
    assert.match(backup.output(), /^files +database\.dump$/m);
    const loader = await startInImage({ root, command: ["/usr/bin/pg_restore", "--version"], environment: {} });
    test.after(() => loader[Symbol.asyncDispose]());
    assert.equal(await loader.ended, "exit code 0", loader.output());
    const tool = await start(test, ["admin", "--help"], {});
    assert.equal(await tool.ended, "exit code 0", tool.output());
    assert.match(tool.output(), /reconcile/);

    await writeFile(join(root, "etc/catalog.yaml"), catalog);
    const [grpcPort, opsPort, relayOps] = [await freePort(), await freePort(), await freePort()];
    const authQuota = await start(test, ["auth-quota"], {
      DATABASE_URL: login.href,
      REDIS_URL: stores.redis.url,
      BILLING_ADDRESS: "127.0.0.1:1",
      HOLD_PROOF_KEYS: holdProofKeys,
      ALLOW_PLAIN_GRPC: "always",
      GRPC_PORT: String(grpcPort),
      OPS_PORT: String(opsPort),
      REBUILD_MS: "0",
    });
    const relay = await start(test, ["relay"], {
      AUTH_QUOTA_ADDRESS: `127.0.0.1:${grpcPort}`,
      NATS_URL: "nats://127.0.0.1:1",
      CATALOG_FILE: "/etc/catalog.yaml",
      SPOOL_DIR: "/var/spool/relay",
      CATALOG_KEY: "none",
      ALLOW_PLAIN_HTTP: "loopback",
      ALLOW_PLAIN_GRPC: "always",
      HTTP_PORT: "0",
      GRPC_PORT: "0",
      OPS_PORT: String(relayOps),
    });
    for (const [service, port] of [
      [authQuota, opsPort],
      [relay, relayOps],
    ] as const) {
      const isReady = async (): Promise<boolean> => (await fetch(`http://127.0.0.1:${port}/readyz`)).ok;
      await until("it is ready", () => isReady().catch(() => false)).catch(() => assert.fail(service.output()));
    }
    for (const service of [relay, authQuota]) {
      service.signal("SIGTERM");
      assert.equal(await service.ended, "exit code 0", service.output());
    }
  });
});
