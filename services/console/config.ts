import { Type, type Static } from "typebox";
import { readVariables } from "#shared/env.ts";
import { leastCost } from "./passwords.ts";

const port = { minimum: 0, maximum: 65_535 };

export const variables = Type.Object({
  LOG_LEVEL: Type.String({ description: "Least level that is logged: debug, info, warn, error.", default: "info" }),
  HTTP_HOST: Type.String({
    description: "Address that browsers, or the proxy before it, reach.",
    default: "127.0.0.1",
  }),
  HTTP_PORT: Type.Integer({
    description: "Port that browsers, or the proxy before it, reach.",
    ...port,
    default: 8090,
  }),
  OPS_HOST: Type.String({ description: "Address of /livez, /readyz and /metrics.", default: "127.0.0.1" }),
  OPS_PORT: Type.Integer({ description: "Port of /livez, /readyz and /metrics.", ...port, default: 9084 }),
  DATABASE_URL: Type.String({ description: "PostgreSQL, as a member of the role console_rw.", minLength: 1 }),
  AUTH_QUOTA_ADDRESS: Type.String({ description: "gRPC target of the auth-quota service.", minLength: 1 }),
  BILLING_ADDRESS: Type.String({ description: "gRPC target of the billing service.", minLength: 1 }),
  PUBLIC_URL: Type.String({
    description: "Where people open the console, such as https://console.example.org; links in invitations begin so.",
    minLength: 1,
  }),
  SECRETS_KEY_FILE: Type.String({
    description:
      "File with 32 random bytes as base64, under which second factors are sealed; the same for all replicas.",
    minLength: 1,
  }),
  ALLOW_PLAIN_HTTP: Type.Union([Type.Literal("never"), Type.Literal("loopback")], {
    description: "Whether people on this machine may come without TLS; everybody else needs HTTPS.",
    default: "never",
  }),
  TRUSTED_PROXIES: Type.String({
    description:
      "Addresses or networks, separated by commas, whose X-Forwarded-For and X-Forwarded-Proto are believed.",
    default: "",
  }),
  GUESSES_PER_MINUTE: Type.Integer({
    description: "Sign-ins and other tries of a secret that one network address has in a minute, per replica.",
    minimum: 1,
    maximum: 1_000,
    default: 10,
  }),
  PASSWORD_MEMORY_KIB: Type.Integer({
    description: "Memory that hashing one password takes, in KiB; at most four are hashed at once.",
    minimum: leastCost.memoryKib,
    maximum: 1_048_576,
    default: leastCost.memoryKib,
  }),
  PASSWORD_PASSES: Type.Integer({
    description: "Passes over that memory.",
    minimum: leastCost.passes,
    maximum: 100,
    default: leastCost.passes,
  }),
  DRAIN_MS: Type.Integer({
    description: "How long requests in hand may take after a stop signal.",
    minimum: 0,
    default: 10_000,
  }),
});

export type Config = Static<typeof variables>;

/** Reads the configuration; throws one Error that names every problem. */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const config = readVariables(variables, environment);
  const problem = problemOfUrl(config);
  if (problem !== undefined) throw new Error(`configuration is not usable:\n  ${problem}`);
  return config;
}

function problemOfUrl({ PUBLIC_URL, ALLOW_PLAIN_HTTP }: Config): string | undefined {
  if (!URL.canParse(PUBLIC_URL)) return "PUBLIC_URL is not a URL";
  const { protocol, hostname, pathname, search, hash } = new URL(PUBLIC_URL);
  if (pathname !== "/" || search !== "" || hash !== "") return "PUBLIC_URL must end with the host name or port";
  if (protocol === "https:") return undefined;
  const isLocal = protocol === "http:" && ["localhost", "127.0.0.1", "[::1]"].includes(hostname);
  if (isLocal && ALLOW_PLAIN_HTTP === "loopback") return undefined;
  return "PUBLIC_URL must begin with https://, or, with ALLOW_PLAIN_HTTP=loopback, be that of this machine";
}
