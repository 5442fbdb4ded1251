import { readFileSync } from "node:fs";
import * as client from "openid-client";
import type { Logger } from "#shared/process/log.ts";
import type { Config } from "../config.ts";
import { createToken } from "./secrets.ts";
import { readAddress } from "../email-address.ts";
import { attemptMinutes, type Identity } from "../store/identities.ts";

/** One issuer of OpenID Connect, by which people sign in whom they have linked to themselves here. */
export type OidcSettings = {
  /** As the issuer writes it in its ID tokens. */
  issuer: URL;
  clientId: string;
  clientSecret: string;
  /** What people call it. */
  name: string;
  /** Where the issuer sends browsers back to. */
  callback: URL;
  /** Whether the issuer may speak plain HTTP, on this machine only. */
  allowPlainHttp: boolean;
  timeoutMs: number;
};

/** What must be known again when the browser comes back. */
export type Secrets = { nonce: string; codeVerifier: string };

/** Why nobody came back from the issuer: it is away, the person did not want to, or the answer was not right. */
export type OidcRefusal = "away" | "cancelled" | "failed";

/** What a sign-in is asked for besides the identity. */
export type OidcWish = {
  /** The address of the person. */
  email?: true;
  /** That the person signs in there just now, whatever session they have. */
  fresh?: true;
};

/** Whom the issuer has seen; `email`: an address of which it says that it is theirs, undefined when it does not. */
export type Seen = { identity: Identity; email: string | undefined };

export type Oidc = {
  name: string;
  /** Whether an issuer, as tokens name it, is this one. */
  isOf: (issuer: string) => boolean;
  /** Where to send the browser, with a state and secrets of its own; undefined while the issuer is away. */
  begin: (wish: OidcWish) => Promise<{ url: URL; state: string; secrets: Secrets } | undefined>;
  /** Takes what the browser brought back; `state` is the one that was given to this browser. Never rejects. */
  finish: (brought: URLSearchParams, own: Secrets & { state: string }, wish: OidcWish) => Promise<Seen | OidcRefusal>;
};

const maxBytes = 262_144;
const maxAgeSeconds = attemptMinutes * 60;
// OpenID Connect Core 1.0, section 2.
const subjectPattern = /^[ -~]{1,255}$/;

/** A whole answer of the issuer, of 256 KiB at most however it is compressed; its end is timed, too. */
async function fetchSmall(url: string, options: client.CustomFetchOptions): Promise<Response> {
  const { method, headers: sent, body = null, redirect, signal = null } = options;
  const response = await fetch(url, { method, headers: sent, body, redirect, signal });
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of response.body ?? []) {
    bytes += piece.length;
    if (bytes > maxBytes) throw new Error(`the issuer answered with more than ${maxBytes} bytes`);
    pieces.push(piece);
  }
  const { status, headers } = response;
  return new Response(bytes === 0 ? null : Buffer.concat(pieces), { status, headers });
}

/** RFC 8414, section 2: without a list the issuer takes the secret in the Authorization header. */
function authenticate(secret: string): client.ClientAuth {
  const [inHeader, inBody] = [client.ClientSecretBasic(secret), client.ClientSecretPost(secret)];
  return (server, ...more) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
    return (methods.includes("client_secret_basic") ? inHeader : inBody)(server, ...more);
  };
}

/**
 * The address of which the issuer says that it has checked it (OpenID Connect Core 1.0, section 5.1): by `true` and
 * nothing that looks like it. From the ID token; from userinfo (5.3) where that has none, as most issuers have it with
 * this flow.
 */
async function verifiedEmail(
  configuration: client.Configuration,
  tokens: client.TokenEndpointResponse,
  claims: client.IDToken,
): Promise<string | undefined> {
  const isInToken = claims["email"] !== undefined || configuration.serverMetadata().userinfo_endpoint === undefined;
  const told = isInToken ? claims : await client.fetchUserInfo(configuration, tokens.access_token, claims.sub);
  const { email, email_verified: isVerified } = told;
  return typeof email === "string" && isVerified === true ? readAddress(email) : undefined;
}

/**
 * Sign-in by authorization code with PKCE, state and nonce. The issuer is asked for its addresses when they are first
 * needed, and again after anything has gone wrong.
 */
export function createOidc(settings: OidcSettings, log: Logger): Oidc {
  const { issuer, clientId, name, callback } = settings;
  let known: Promise<client.Configuration> | undefined;
  const discover = (): Promise<client.Configuration> => {
    // The signature is checked besides TLS: tokens are then right whatever stands between.
    const execute = [client.enableNonRepudiationChecks];
    if (settings.allowPlainHttp) execute.push(client.allowInsecureRequests);
    known ??= client.discovery(issuer, clientId, undefined, authenticate(settings.clientSecret), {
      [client.customFetch]: fetchSmall,
      timeout: settings.timeoutMs / 1_000,
      execute,
    });
    return known;
  };
  const forget = (error: unknown): OidcRefusal => {
    const refusal = refusalOf(error);
    if (refusal !== "cancelled") {
      known = undefined;
      log.warn({ reason: reasonOf(error) }, "OIDC sign-in failed");
    }
    return refusal;
  };
  return {
    name,
    isOf: (other) => URL.canParse(other) && new URL(other).href === issuer.href,
    begin: async ({ email, fresh }) => {
      try {
        const configuration = await discover();
        const state = createToken();
        const secrets = { nonce: createToken(), codeVerifier: client.randomPKCECodeVerifier() };
        const url = client.buildAuthorizationUrl(configuration, {
          redirect_uri: callback.href,
          scope: email ? "openid email" : "openid",
          state,
          nonce: secrets.nonce,
          code_challenge: await client.calculatePKCECodeChallenge(secrets.codeVerifier),
          code_challenge_method: "S256",
          ...(fresh && { prompt: "login", max_age: String(maxAgeSeconds) }),
        });
        return { url, state, secrets };
      } catch (error) {
        forget(error);
        return undefined;
      }
    },
    finish: async (brought, { state, nonce, codeVerifier }, { email, fresh }) => {
      try {
        const back = new URL(`?${brought.toString()}`, callback);
        const checks = { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: codeVerifier };
        const configuration = await discover();
        const tokens = await client.authorizationCodeGrant(configuration, back, {
          ...checks,
          idTokenExpected: true,
          ...(fresh && { maxAge: maxAgeSeconds }),
        });
        const claims = tokens.claims();
        if (claims === undefined || !subjectPattern.test(claims.sub)) return "failed";
        const identity = { issuer: claims.iss, subject: claims.sub };
        return { identity, email: email && (await verifiedEmail(configuration, tokens, claims)) };
      } catch (error) {
        return forget(error);
      }
    },
  };
}

/** The issuer of the configuration, if there is one. */
export function oidcOf(config: Config, timeoutMs: number, log: Logger): Oidc | undefined {
  if (config.OIDC_ISSUER === "") return undefined;
  const settings = {
    issuer: new URL(config.OIDC_ISSUER),
    clientId: config.OIDC_CLIENT_ID,
    clientSecret: readFileSync(config.OIDC_CLIENT_SECRET_FILE, "utf8").trim(),
    name: config.OIDC_NAME,
    callback: new URL("/sign-in/oidc/callback", config.PUBLIC_URL),
    allowPlainHttp: config.ALLOW_PLAIN_HTTP === "loopback",
    timeoutMs,
  };
  return createOidc(settings, log);
}

function refusalOf(error: unknown): OidcRefusal {
  if (error instanceof client.AuthorizationResponseError) {
    if (error.error === "access_denied") return "cancelled";
    return error.error === "temporarily_unavailable" ? "away" : "failed";
  }
  const isTimedOut = error instanceof client.ClientError && error.code === "OAUTH_TIMEOUT";
  // What fetch rejects with when nobody answers.
  return isTimedOut || error instanceof TypeError ? "away" : "failed";
}

/** For the log: codes and messages only. What is hung on to these errors holds codes, tokens and claims. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const [code, oauthError] = [Reflect.get(error, "code"), Reflect.get(error, "error")];
  const parts = [error.message, code, oauthError].filter((part) => typeof part === "string" && part !== "");
  const cause = error.cause instanceof Error ? `: ${reasonOf(error.cause)}` : "";
  return `${parts.join(", ")}${cause}`.slice(0, 500);
}
