import { generateKeyPairSync, sign, type KeyObject } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import Provider, { type Adapter, type AdapterPayload, type Configuration } from "oidc-provider";
import { freePort } from "#shared/testing/free-port.ts";

/** A real issuer on a loopback socket, and what tests have it do. */
export type Issuer = AsyncDisposable & {
  url: string;
  clientId: string;
  clientSecret: string;
  /** Who is signed in there, in every browser. */
  subject: string;
  /** What it says of an address, when it is asked for one: by itself in userinfo alone. */
  address: { email?: unknown; email_verified?: unknown };
  /** Changes what userinfo says. */
  tamperUserinfo: ((claims: Record<string, unknown>) => Record<string, unknown>) | undefined;
  /** Answers authorization requests with this error. */
  refusal: string | undefined;
  /** Changes the claims of ID tokens, which are then signed with `key`. */
  tamper: ((claims: Record<string, unknown>) => Record<string, unknown>) | undefined;
  key: KeyObject;
  /** Answers with so many bytes, whatever is asked. */
  floodBytes: number;
  /** How often its addresses were asked for. */
  discoveries: () => number;
  stop: () => Promise<void>;
  start: () => Promise<void>;
  /** Goes where the console sends a browser, and tells with which path and query it comes back. */
  visit: (url: string) => Promise<string>;
};

const clientSecret = "a secret of the test's own";
const second = 1;

/** Everything in one map; a test has few of each. */
class MapAdapter implements Adapter {
  readonly #kept = new Map<string, AdapterPayload>();
  upsert = async (id: string, payload: AdapterPayload) => void this.#kept.set(id, payload);
  find = async (id: string) => this.#kept.get(id);
  findByUid = async (uid: string) => [...this.#kept.values()].find((payload) => payload.uid === uid);
  findByUserCode = async () => undefined;
  destroy = async (id: string) => void this.#kept.delete(id);
  revokeByGrantId = async () => undefined;
  consume = async (id: string) => void Object.assign(this.#kept.get(id) ?? {}, { consumed: Date.now() });
}

const adapters = () => {
  const made = new Map<string, Adapter>();
  return (name: string): Adapter => {
    const adapter = made.get(name) ?? new MapAdapter();
    made.set(name, adapter);
    return adapter;
  };
};

const createKey = (): KeyObject => generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;

/** Another key than the issuer's. */
export const otherKey = createKey;

function configure(key: KeyObject, callback: string, addressOf: () => Issuer["address"]): Configuration {
  const client = {
    client_secret: clientSecret,
    redirect_uris: [callback],
    id_token_signed_response_alg: "ES256",
  } as const;
  const hour = 3_600 * second;
  return {
    clients: ["console", "other"].map((clientId) => ({ ...client, client_id: clientId })),
    adapter: adapters(),
    jwks: { keys: [{ ...key.export({ format: "jwk" }), kid: "first", alg: "ES256", use: "sig" } as never] },
    cookies: { keys: ["for tests"] },
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false } },
    enabledJWA: { idTokenSigningAlgValues: ["ES256"] },
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    ttl: { AccessToken: hour, AuthorizationCode: hour, IdToken: hour, Interaction: hour, Session: hour, Grant: hour },
    claims: { openid: ["sub"], email: ["email", "email_verified"] },
    findAccount: (_context, accountId) => ({
      accountId,
      claims: () => ({ sub: accountId, ...(addressOf() as Record<string, string>) }),
    }),
    // Nobody is asked whether the console may know them.
    loadExistingGrant: async ({ oidc }) => {
      const { provider, client: asking, account } = oidc;
      const grant = new provider.Grant({ clientId: asking?.clientId ?? "", accountId: account?.accountId ?? "" });
      grant.addOIDCScope("openid email");
      await grant.save();
      return grant;
    },
  };
}

const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/** The token with other claims, signed as RFC 7518, section 3.4, has it. */
function resign(token: string, issuer: Issuer): string {
  const claims = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as Record<string, unknown>;
  const signed = `${base64({ alg: "ES256", kid: "first" })}.${base64(issuer.tamper?.(claims) ?? claims)}`;
  const signature = sign("sha256", Buffer.from(signed), { key: issuer.key, dsaEncoding: "ieee-p1363" });
  return `${signed}.${signature.toString("base64url")}`;
}

/** Starts the issuer of a console that people open at `publicUrl`. */
export async function startIssuer(publicUrl = "https://console.example"): Promise<Issuer> {
  const callback = `${publicUrl}/sign-in/oidc/callback`;
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const ownKey = createKey();
  const provider = new Provider(
    url,
    configure(ownKey, callback, () => issuer.address),
  );
  let discoveries = 0;
  provider.use(async (context, next) => {
    if (context.path.startsWith("/.well-known/")) discoveries += 1;
    await next();
    if (issuer.floodBytes > 0) context.body = { padding: "x".repeat(issuer.floodBytes) };
    if (context.path === "/me" && issuer.tamperUserinfo) {
      context.body = issuer.tamperUserinfo(context.body as Record<string, unknown>);
    }
    const body = context.body as { id_token?: string } | undefined;
    const isChanged = issuer.tamper !== undefined || issuer.key !== ownKey;
    if (context.path === "/token" && isChanged && body?.id_token) body.id_token = resign(body.id_token, issuer);
  });
  const answer = provider.callback();
  const interact = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { subject, refusal } = issuer;
    const result = refusal === undefined ? { login: { accountId: subject } } : { error: refusal };
    await provider.interactionFinished(request, response, result);
  };
  const server = createServer((request, response) => {
    void (request.url?.startsWith("/interaction/") ? interact(request, response) : answer(request, response));
  });
  const issuer: Issuer = {
    url,
    clientId: "console",
    clientSecret,
    subject: "nobody",
    address: {},
    tamperUserinfo: undefined,
    refusal: undefined,
    tamper: undefined,
    key: ownKey,
    floodBytes: 0,
    discoveries: () => discoveries,
    start: () => new Promise((resolve) => server.listen(port, "127.0.0.1", resolve)),
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
    visit: (first) => visit(first, callback),
    [Symbol.asyncDispose]: async () => {
      if (server.listening) await issuer.stop();
    },
  };
  await issuer.start();
  return issuer;
}

const maxRedirects = 10;

/** A browser at the issuer, with cookies of its own. */
async function visit(first: string, callback: string): Promise<string> {
  const cookies = new Map<string, string>();
  let url = first;
  for (let count = 0; count < maxRedirects; count += 1) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(url, { redirect: "manual", headers: { cookie } });
    for (const line of response.headers.getSetCookie()) {
      const [name = "", value = ""] = line.split(";")[0]?.split("=") ?? [];
      cookies.set(name, value);
    }
    await response.body?.cancel();
    const location = response.headers.get("location");
    if (location === null) throw new Error(`the issuer answered ${response.status} and no redirect`);
    const next = new URL(location, url);
    if (next.href.startsWith(callback)) return next.pathname + next.search;
    url = next.href;
  }
  throw new Error("the issuer redirects for ever");
}
