import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { after, describe, it } from "node:test";
import { promisify } from "node:util";
import { parse } from "yaml";
import { identities } from "#shared/grpc/identity.ts";
import { declaredServices, type Variables } from "../tools/checks/readme-tables.ts";
import { repository, run } from "../tools/checks/run.ts";
import { readConfig as readMigrate } from "../tools/migrate/config.ts";
import { readConfig as readAuthQuota } from "../../services/auth-quota/config.ts";
import { readConfig as readBilling } from "../../services/billing/config.ts";
import { readConfig as readConsole } from "../../services/console/config.ts";
import { readConfig as readRelay } from "../../services/relay/config.ts";
import { readConfig as readVideoTask } from "../../services/video-task/config.ts";

type Service = {
  image: string;
  command: string[];
  environment: Record<string, string>;
  user: string;
  read_only: boolean;
  tmpfs: string[];
  cap_drop: string[];
  security_opt: string[];
  stop_grace_period: string;
  healthcheck: { disable?: boolean; test: string[] };
  depends_on: Record<string, { condition: string }>;
  networks: string[];
  ports?: string[];
  volumes?: string[];
  secrets?: string[];
};
type Compose = {
  services: Record<string, Service>;
  secrets: Record<string, { file: string }>;
  configs: Record<string, { file?: string }>;
  networks: Record<string, { internal?: boolean } | null>;
};

const file = join(repository, "deploy/compose.yaml");
const text = readFileSync(file, "utf8");
/** What an operator would give, for a variable without a default. */
const filled = text.replace(
  /\$\{(\w+)(?::-([^}]*)|:\?[^}]*)\}/g,
  (_all, name: string, otherwise?: string) => otherwise ?? `given-${name.toLowerCase()}`,
);
const compose = parse(filled, { merge: true }) as Compose;

const readers: Record<string, (environment: NodeJS.ProcessEnv) => object> = {
  certificates: () => ({}),
  migrate: readMigrate,
  "auth-quota": readAuthQuota,
  billing: readBilling,
  "video-task": readVideoTask,
  relay: readRelay,
  console: readConsole,
};
const declared = new Map<string, Variables>();
for (const { service, variables } of await declaredServices()) declared.set(service, variables);
const ours = Object.entries(compose.services)
  .filter(([, { image }]) => image === "model-relay")
  .map(([name, service]) => [name, { ...service, environment: service.environment ?? {} }] as const);

describe("deploy/compose.yaml", () => {
  it("runs every command of the image, under its name", () => {
    assert.deepEqual(ours.map(([name]) => name).toSorted(), Object.keys(readers).toSorted());
    for (const [name, { command }] of ours) assert.equal(command[0], name);
  });

  for (const [name, service] of ours) {
    if (name !== "certificates")
      it(`gives ${name} variables that it declares, each that it must have, and values that it takes`, () => {
        const { properties } = declared.get(name) as Variables;
        assert.deepEqual(
          Object.keys(service.environment).filter((variable) => !Object.hasOwn(properties, variable)),
          [],
        );
        (readers[name] as (environment: NodeJS.ProcessEnv) => object)(service.environment);
      });

    it(`gives ${name} the rights of the strictest cluster`, () => {
      assert.deepEqual([service.user, service.read_only, service.cap_drop], ["65532:65532", true, ["ALL"]]);
      assert.deepEqual(service.security_opt, ["no-new-privileges:true"]);
      assert.ok(service.tmpfs.some((place) => place.startsWith("/tmp:")));
    });
  }

  it("asks each service at the port where it listens, over a network that both have", () => {
    const addresses = ours.flatMap(([name, { environment }]) =>
      Object.entries(environment).flatMap(([variable, value]) =>
        /(_ADDRESS|_ADDRESSES|_URL)$/.test(variable) && !/^(API|PUBLIC)_URL$/.test(variable)
          ? [
              {
                name,
                value,
                ...(/(?<to>[\w-]+):(?<port>\d+)(\/\w+)?$/.exec(value)?.groups as { to: string; port: string }),
              },
            ]
          : [],
      ),
    );
    assert.ok(addresses.length >= 20);
    const storePorts: Record<string, string> = { postgres: "5432", redis: "6379", nats: "4222" };
    for (const { name, value, to, port } of addresses) {
      const target = compose.services[to];
      assert.equal(port, storePorts[to] ?? target?.environment["GRPC_PORT"], `${name}: ${value}`);
      const shared = compose.services[name]?.networks.filter((network) => target?.networks.includes(network));
      assert.ok(shared && shared.length > 0, `${name} and ${to} share no network`);
    }
  });

  it("asks for readiness where it is told, before others depend on it", () => {
    for (const [name, { healthcheck, environment, depends_on }] of ours) {
      if (name === "migrate" || name === "certificates") continue;
      assert.match(healthcheck.test.join(" "), /^CMD \/nodejs\/bin\/node -e .*process\.env\.OPS_PORT.*\/readyz/);
      const { properties } = declared.get(name) as Variables;
      assert.equal(environment["OPS_PORT"], String((properties["OPS_PORT"] as { default: number }).default));
      for (const [other, { condition }] of Object.entries(depends_on)) {
        assert.equal(condition, other === "migrate" ? "service_completed_successfully" : "service_healthy");
      }
    }
  });

  it("gives each as long to stop as the chart gives it between the stop signal and the kill", () => {
    const sums = readFileSync(join(repository, "helm/templates/_helpers.tpl"), "utf8");
    const twice = /has \.component \(list ([^)]+)\) \| ternary 2 1/.exec(sums)?.[1] ?? "";
    const flush = /\$flush := dict (.+) -}}/.exec(sums)?.[1] ?? "";
    for (const [name, { stop_grace_period: grace, environment }] of ours) {
      if (name === "migrate" || name === "certificates") continue;
      const { properties } = declared.get(name) as Variables;
      const drainMs = Number(environment["DRAIN_MS"] ?? (properties["DRAIN_MS"] as { default: number }).default);
      const drains = twice.includes(`"${name}"`) ? 2 : 1;
      const needed = (drains * drainMs) / 1_000 + Number(new RegExp(`"${name}" (\\d+)`).exec(flush)?.[1]);
      assert.ok(Number(grace.replace(/s$/, "")) >= needed, `${name}: ${grace}, but it needs ${needed} s`);
    }
  });

  it("has no password of its own, and publishes two ports, to this machine unless it is told otherwise", () => {
    const defaults = [...text.matchAll(/\$\{(\w+):-([^}]*)\}/g)].map(([, name, value]) => `${name}=${value}`);
    assert.deepEqual([...new Set(defaults)].toSorted(), [
      "BIND_ADDRESS=127.0.0.1",
      "CATALOG_SOURCE=file",
      "HOLD_PROOF_FROM=",
      "IMAGE=model-relay",
      "PUBLIC_HOST=localhost",
    ]);
    assert.deepEqual([...text.matchAll(/\$\{\w+\}/g)], []);
    const published = Object.values(compose.services).flatMap(({ ports = [] }) => ports);
    assert.deepEqual(published, ["127.0.0.1:8443:8080", "127.0.0.1:9443:9443"]);
    for (const [name, network] of Object.entries(compose.networks))
      assert.equal(network?.internal ?? false, name !== "outside");
  });

  it("starts Redis with the users of deploy/stores, and the password that is given", async () => {
    const folder = mkdtempSync(join(tmpdir(), "relay-compose-redis-"));
    after(() => rmSync(folder, { recursive: true }));
    const { redis } = compose.services as { redis: Service };
    const [, , script = ""] = redis.command;
    const users = join(folder, "users.conf");
    const words = script
      .replaceAll("$$", "$")
      .replace("/etc/redis/users.conf", join(repository, "deploy/stores/redis-users.conf"))
      .replaceAll("/tmp/users.conf", users)
      .replace("docker-entrypoint.sh", "echo");
    const environment = { PATH: process.env["PATH"], REDIS_AUTH_QUOTA_PASSWORD: "s3cret" };
    const { stdout } = await promisify(execFile)("sh", ["-c", words], { env: environment });
    assert.match(stdout, /^redis-server \S+users\.conf --appendonly yes /);
    assert.match(readFileSync(users, "utf8"), /^user auth-quota reset on >s3cret ~/m);
  });

  it("gives each service its own certificate, and the key of the authority to nobody but who makes them", () => {
    for (const [name, { environment, volumes = [] }] of ours) {
      if (name === "migrate" || name === "certificates") continue;
      assert.equal(environment["GRPC_CERT_FILE"], `/var/tls/${name}/tls.crt`);
      const held = volumes.filter((volume) => volume.startsWith("tls-"));
      assert.deepEqual(held, [`tls-${name}:/var/tls/${name}:ro`]);
    }
    const { certificates } = compose.services as { certificates: Service };
    const made = ["authority", ...identities].map((name) => `tls-${name}:/var/tls/${name}`);
    assert.deepEqual(certificates.volumes?.toSorted(), made.toSorted());
  });

  it("keeps the relay's spool, and mounts what it names", () => {
    const { relay } = compose.services as { relay: Service };
    assert.ok(relay.volumes?.includes(`spool:${relay.environment["SPOOL_DIR"]}`));
    for (const [, { environment, volumes = [], secrets = [] }] of ours) {
      const mounted = [
        ...volumes.map((volume) => volume.split(":")[1]),
        ...secrets.map((name) => `/run/secrets/${name}`),
      ];
      for (const [variable, value] of Object.entries(environment)) {
        if (!variable.endsWith("_FILE")) continue;
        const isMounted = mounted.some((path) => path && (value === path || value.startsWith(`${path}/`)));
        assert.ok(isMounted, `${variable}=${value}`);
      }
      for (const name of secrets) assert.ok(Object.hasOwn(compose.secrets, name));
    }
    // Docker writes any other into the container, and refuses to where its root is read-only.
    for (const { file: path } of Object.values(compose.configs)) assert.ok(path && existsSync(join(file, "..", path)));
  });
});

const folders = (process.env["PATH"] ?? "").split(delimiter);
const pluginFolders = ["/usr/libexec/docker/cli-plugins", "/usr/lib/docker/cli-plugins"];
const program = [...folders, ...pluginFolders].map((folder) => join(folder, "docker-compose")).find(existsSync);

it(
  "docker-compose takes it, and refuses it while something is not given",
  { skip: program === undefined },
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "relay-compose-"));
    after(() => rmSync(folder, { recursive: true }));
    const names = [...new Set([...text.matchAll(/\$\{(\w+):\?/g)].map(([, name]) => name as string))];
    const given = names.map((name) => `${name}=${/_(FILE|DIR)$/.test(name) ? folder : "given"}`);
    writeFileSync(join(folder, "credentials"), "");
    const all = given.map((line) => (line.startsWith("CREDENTIALS_FILE=") ? `${line}/credentials` : line));
    const words = [program as string, "-f", file, "config", "-q"];
    const whole = await run("env", ["-i", ...all, ...words], folder);
    assert.deepEqual([whole.code, whole.errors], [0, ""]);
    const without = await run(
      "env",
      ["-i", ...all.filter((line) => !line.startsWith("OWNER_PASSWORD")), ...words],
      folder,
    );
    assert.notEqual(without.code, 0);
    assert.match(without.errors, /OWNER_PASSWORD/);
  },
);
