import type { StoreName, ToolName } from "#shared/testing/binaries.ts";

/** What is known about this machine when a store is missing. */
export type Facts = {
  platform: NodeJS.Platform;
  /** Stores without a given URL and without a program on this machine. */
  missing: StoreName[];
  /** How apt-get may be used: as root, through sudo without a password, or not at all. */
  apt: "root" | "sudo" | "none";
  /** Whether `docker compose` reaches an engine. */
  hasCompose: boolean;
  /** Ways that were tried before and did not help. */
  failed: ("apt" | "compose")[];
};

export type Step =
  | { kind: "ready" }
  | { kind: "apt"; withSudo: boolean; packages: string[] }
  | { kind: "compose"; stores: StoreName[] }
  | { kind: "impossible"; message: string };

export type ToolFacts = { missing: ToolName[] } & Pick<Facts, "apt" | "failed">;

export type ToolStep = { kind: "ready" } | Extract<Step, { kind: "apt" }> | { kind: "without"; messages: string[] };

const debianPackages = { redis: "redis-server", nats: "nats-server", postgres: "postgresql" };
const toolPackages = {
  "headless-shell": "chromium-headless-shell",
  browser: "chromium",
  prometheus: "prometheus",
  promtool: "prometheus",
  buildah: "buildah",
  pgbouncer: "pgbouncer",
};
const brewPackages = { redis: "redis", nats: "nats-server", postgres: "postgresql@17" };
const programs = { redis: "redis-server", nats: "nats-server", postgres: "postgres and initdb" };
const variables = {
  redis: "REDIS_URL=redis://...",
  nats: "NATS_URL=nats://...",
  postgres: "POSTGRES_URL=postgres://<superuser>...",
};

/** The next thing to do about missing stores: programs of the machine, then apt-get, then containers, then a word. */
export function nextStep(facts: Facts): Step {
  const { missing, apt, failed } = facts;
  if (missing.length === 0) return { kind: "ready" };
  if (apt !== "none" && !failed.includes("apt")) {
    return { kind: "apt", withSudo: apt === "sudo", packages: missing.map((store) => debianPackages[store]) };
  }
  if (facts.hasCompose && !failed.includes("compose")) return { kind: "compose", stores: missing };
  return { kind: "impossible", message: adviceFor(facts) };
}

/** The next thing to do about missing tools: apt-get, then a word. None of them is a reason not to test the rest. */
export function nextToolStep({ missing, apt, failed }: ToolFacts): ToolStep {
  if (missing.length === 0) return { kind: "ready" };
  if (apt !== "none" && !failed.includes("apt")) {
    const packages = [...new Set(missing.map((tool) => toolPackages[tool]))];
    return { kind: "apt", withSudo: apt === "sudo", packages };
  }
  // Any browser does what the headless shell does, only slower.
  const needed = missing.filter((tool) => tool !== "headless-shell");
  const messages = needed.map((tool) => {
    const elsewhere = tool === "browser" ? ", or name a Chromium or Chrome in CHROMIUM_PATH" : "";
    const advice = `install Debian's package ${toolPackages[tool]}${elsewhere}`;
    return `${tool} tests are skipped, for there is no ${tool}: ${advice}`;
  });
  return { kind: "without", messages };
}

function adviceFor({ platform, missing, failed }: Facts): string {
  const pick = (words: Record<StoreName, string>): string => missing.map((store) => words[store]).join(" ");
  const brew = `  macOS:           brew install ${pick(brewPackages)}`;
  const debian = `  Debian, Ubuntu:  sudo apt-get install ${pick(debianPackages)}`;
  const other = `  others:          put ${missing.map((store) => programs[store]).join(", ")} on PATH`;
  const tried = failed.length === 0 ? "" : ` (tried: ${failed.join(", ")}; the messages are above)`;
  return [
    `Missing on this machine: ${missing.join(", ")}${tried}. Do one of these and start again:`,
    ...(platform === "darwin" ? [brew, debian] : [debian, brew]),
    other,
    "  containers:      install docker with its compose plugin and start it",
    `  elsewhere:       ${pick(variables)} npm start`,
  ].join("\n");
}
