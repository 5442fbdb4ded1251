import { Type, type Static } from "typebox";
import { readVariables } from "#shared/process/env.ts";
import { checkLinks, grpcTlsVariables, samplingVariables, tracingVariables } from "#shared/stores/link-variables.ts";
import { isId } from "./ids.ts";

/**
 * The least that production may be set to: OWASP's minimum for Argon2id. Below it a stolen table is guessed at rates
 * that no rule about passwords makes up for; only tests build their own.
 */
export const minPasswordCost = { memoryKib: 19_456, passes: 2 };

const port = { minimum: 0, maximum: 65_535 };

export const variables = Type.Object({
  LOG_LEVEL: Type.String({ description: "Minimum log level: debug, info, warn, error.", default: "info" }),
  HTTP_HOST: Type.String({
    description: "Address on which browsers, or a proxy in front, are served.",
    default: "127.0.0.1",
  }),
  HTTP_PORT: Type.Integer({
    description: "Port on which browsers, or a proxy in front, are served.",
    ...port,
    default: 8090,
  }),
  OPS_HOST: Type.String({ description: "Address of /livez, /readyz and /metrics.", default: "127.0.0.1" }),
  OPS_PORT: Type.Integer({ description: "Port of /livez, /readyz and /metrics.", ...port, default: 9084 }),
  DATABASE_URL: Type.String({
    description: "PostgreSQL connection URL of a member of the role console_rw.",
    minLength: 1,
  }),
  AUTH_QUOTA_ADDRESS: Type.String({ description: "gRPC target of the auth-quota service.", minLength: 1 }),
  BILLING_ADDRESS: Type.String({ description: "gRPC target of the billing service.", minLength: 1 }),
  VIDEO_TASK_ADDRESS: Type.String({ description: "gRPC target of the video-task service.", minLength: 1 }),
  RELAY_ADDRESSES: Type.String({
    description: "Comma-separated gRPC targets of the relays, host:port; every address of a name is queried.",
    minLength: 1,
  }),
  API_URL: Type.String({
    description: "Public URL of the API, such as https://api.example.org; used by examples and the playground.",
    minLength: 1,
  }),
  PUBLIC_URL: Type.String({
    description: "Public URL of the console, such as https://console.example.org; used for links in invitations.",
    minLength: 1,
  }),
  SECRETS_KEY_FILE: Type.String({
    description:
      "File with 32 random bytes in base64, the key that encrypts second factors and the secrets of webhooks and the " +
      "playground; the same for all replicas. Up to three such keys, with spaces or line ends between them, while it " +
      "is rotated: the first one encrypts.",
    minLength: 1,
  }),
  OIDC_ISSUER: Type.String({
    description:
      "Issuer URL of an OpenID Connect provider for sign-in, as in its tokens; its redirect URI is " +
      "/sign-in/oidc/callback below PUBLIC_URL. Set all four of OIDC_…, or none.",
    default: "",
  }),
  OIDC_CLIENT_ID: Type.String({ description: "Client id of this console at the issuer.", default: "" }),
  OIDC_CLIENT_SECRET_FILE: Type.String({
    description: "File with the client secret of this console.",
    default: "",
  }),
  OIDC_NAME: Type.String({
    description: "Name of the issuer on the sign-in button.",
    maxLength: 60,
    default: "",
  }),
  DOMAIN_SIGN_IN: Type.Union([Type.Literal("off"), Type.Literal("on")], {
    description:
      "Whether accounts may claim a domain whose people become members at their first sign-in through the issuer. " +
      "Only with an issuer that checks addresses; needs OIDC_ISSUER.",
    default: "off",
  }),
  ALLOW_PLAIN_HTTP: Type.Union([Type.Literal("never"), Type.Literal("loopback")], {
    description: "Whether browsers on this machine may connect without TLS; all others need HTTPS.",
    default: "never",
  }),
  TRUSTED_PROXIES: Type.String({
    description: "Comma-separated addresses or networks whose X-Forwarded-For and X-Forwarded-Proto are trusted.",
    default: "",
  }),
  BOOTSTRAP_ACCOUNT: Type.String({
    description:
      "Account that the first operator owns from the start, for a console on one's own machine; requires a " +
      "PUBLIC_URL with http://. Empty: none.",
    default: "",
  }),
  SECOND_FACTOR_REQUIRED_OF: Type.Union([Type.Literal("nobody"), Type.Literal("operators")], {
    description: "Who must have a second factor to use their role; optional for everybody else.",
    default: "nobody",
  }),
  GUESSES_PER_MINUTE: Type.Integer({
    description: "Attempts per minute and network address to sign in or enter another secret, per replica.",
    minimum: 1,
    maximum: 1_000,
    default: 10,
  }),
  PASSWORD_MEMORY_KIB: Type.Integer({
    description: "Memory for hashing one password, in KiB; at most four are hashed concurrently.",
    minimum: minPasswordCost.memoryKib,
    maximum: 1_048_576,
    default: minPasswordCost.memoryKib,
  }),
  PASSWORD_PASSES: Type.Integer({
    description: "Passes over that memory when hashing a password.",
    minimum: minPasswordCost.passes,
    maximum: 100,
    default: minPasswordCost.passes,
  }),
  STRIPE_SECRET_KEY_FILE: Type.String({
    description: "File with Stripe's secret key on one line. Empty: top-ups by voucher only.",
    default: "",
  }),
  STRIPE_WEBHOOK_SECRET_FILE: Type.String({
    description: "File with the webhook's signing secret; one per line while they are rotated.",
    default: "",
  }),
  STRIPE_API_URL: Type.String({
    description: "URL of Stripe's API; change it only for a test double.",
    default: "https://api.stripe.com",
  }),
  SMTP_URL_FILE: Type.String({
    description:
      "File with the URL of a mail server, such as smtps://user:password@mail.example.org; smtp:// begins TLS after " +
      "the greeting. Empty: no alerts by mail.",
    default: "",
  }),
  MAIL_FROM: Type.String({ description: "Sender of mails, such as relay@example.org.", default: "" }),
  ...grpcTlsVariables,
  ...tracingVariables,
  ...samplingVariables,
  DRAIN_MS: Type.Integer({
    description: "Time that requests under way are given after a stop signal.",
    minimum: 0,
    default: 10_000,
  }),
});

export type Config = Static<typeof variables>;

/** Reads the configuration; throws one Error that names every problem. */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const config = readVariables(variables, environment);
  checkLinks(config);
  const problems = [problemOfUrl, problemOfBootstrap, problemOfApiUrl, problemOfStripe, problemOfMail, problemOfOidc];
  const problem = problems.map((of) => of(config)).find((found) => found !== undefined);
  if (problem !== undefined) throw new Error(`configuration is not usable:\n  ${problem}`);
  return config;
}

function problemOfStripe(config: Config): string | undefined {
  const { STRIPE_SECRET_KEY_FILE, STRIPE_WEBHOOK_SECRET_FILE, STRIPE_API_URL } = config;
  if ((STRIPE_SECRET_KEY_FILE === "") !== (STRIPE_WEBHOOK_SECRET_FILE === "")) {
    return "STRIPE_SECRET_KEY_FILE and STRIPE_WEBHOOK_SECRET_FILE must both be set, or neither";
  }
  // The secret key goes there: in the clear only to a stand-in on this machine.
  const isUsable = /^(?:https:\/\/[\w.-]+|http:\/\/(?:localhost|127\.0\.0\.1))(?::\d{1,5})?\/?$/.test(STRIPE_API_URL);
  return isUsable ? undefined : "STRIPE_API_URL must be such as https://api.stripe.com, without a path";
}

function problemOfMail({ SMTP_URL_FILE, MAIL_FROM }: Config): string | undefined {
  if ((SMTP_URL_FILE === "") !== (MAIL_FROM === "")) return "SMTP_URL_FILE and MAIL_FROM must both be set, or neither";
  const isUsable = MAIL_FROM === "" || /^[^\s<>@",;]+@[^\s<>@",;]+$/.test(MAIL_FROM);
  return isUsable ? undefined : "MAIL_FROM must be an address such as relay@example.org";
}

function problemOfApiUrl({ API_URL }: Config): string | undefined {
  const url = URL.canParse(API_URL) ? new URL(API_URL) : undefined;
  const isUsable = url && /^https?:$/.test(url.protocol) && url.pathname === "/" && url.search + url.hash === "";
  return isUsable ? undefined : "API_URL must be such as https://api.example.org, without a path";
}

function problemOfUrl({ PUBLIC_URL, ALLOW_PLAIN_HTTP }: Config): string | undefined {
  if (!URL.canParse(PUBLIC_URL)) return "PUBLIC_URL is not a URL";
  const { protocol, hostname, pathname, search, hash } = new URL(PUBLIC_URL);
  if (pathname !== "/" || search !== "" || hash !== "") return "PUBLIC_URL must end with the host name or port";
  if (protocol === "https:") return undefined;
  if (isLocal(protocol, hostname) && ALLOW_PLAIN_HTTP === "loopback") return undefined;
  return "PUBLIC_URL must begin with https://, or, with ALLOW_PLAIN_HTTP=loopback, be that of this machine";
}

// In production nobody who runs the installation gets an account's money by a variable.
function problemOfBootstrap({ BOOTSTRAP_ACCOUNT, PUBLIC_URL }: Config): string | undefined {
  if (BOOTSTRAP_ACCOUNT === "") return undefined;
  if (!isId(BOOTSTRAP_ACCOUNT)) return "BOOTSTRAP_ACCOUNT is not the id of an account";
  return PUBLIC_URL.startsWith("http://") ? undefined : "BOOTSTRAP_ACCOUNT needs a PUBLIC_URL that begins with http://";
}

const isLocal = (protocol: string, hostname: string): boolean =>
  protocol === "http:" && ["localhost", "127.0.0.1", "[::1]"].includes(hostname);

function problemOfOidc(config: Config): string | undefined {
  const { OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET_FILE, OIDC_NAME, ALLOW_PLAIN_HTTP } = config;
  if (config.DOMAIN_SIGN_IN === "on" && OIDC_ISSUER === "") return "DOMAIN_SIGN_IN=on needs OIDC_ISSUER";
  const all = [OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET_FILE, OIDC_NAME];
  if (all.every((value) => value === "")) return undefined;
  if (all.some((value) => value === "")) {
    return "OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET_FILE and OIDC_NAME are set all or none";
  }
  if (!URL.canParse(OIDC_ISSUER)) return "OIDC_ISSUER is not a URL";
  const { protocol, hostname, search, hash, username, password } = new URL(OIDC_ISSUER);
  // OpenID Connect Discovery 1.0, section 3: https, and neither query nor fragment.
  if (search + hash + username + password !== "") return "OIDC_ISSUER must end with the host name, port or path";
  if (protocol === "https:" || (isLocal(protocol, hostname) && ALLOW_PLAIN_HTTP === "loopback")) return undefined;
  return "OIDC_ISSUER must begin with https://, or, with ALLOW_PLAIN_HTTP=loopback, be on this machine";
}
