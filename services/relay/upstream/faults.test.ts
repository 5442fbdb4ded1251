import assert from "node:assert/strict";
import { test } from "node:test";
import { errors } from "undici";
import { CallFailure } from "../failures.ts";
import { SendError } from "./send.ts";
import { faultOfEnd, faultOfError, faultOfStatus, type UpstreamFault } from "./faults.ts";

const coded = (code: string): Error => Object.assign(new Error(code), { code });

const causes: [Error, boolean, UpstreamFault][] = [
  [coded("ENOTFOUND"), true, "dns"],
  [coded("EAI_AGAIN"), true, "dns"],
  [coded("ECONNREFUSED"), true, "connect"],
  [coded("EHOSTUNREACH"), true, "connect"],
  [new errors.ConnectTimeoutError("too long"), true, "connect"],
  [coded("ECONNRESET"), true, "connect"],
  [coded("CERT_HAS_EXPIRED"), true, "tls"],
  [coded("DEPTH_ZERO_SELF_SIGNED_CERT"), true, "tls"],
  [coded("UNABLE_TO_VERIFY_LEAF_SIGNATURE"), true, "tls"],
  [coded("ERR_TLS_CERT_ALTNAME_INVALID"), true, "tls"],
  [coded("ERR_SSL_WRONG_VERSION_NUMBER"), true, "tls"],
  [new errors.HeadersTimeoutError("too long"), false, "timeout"],
  [new errors.BodyTimeoutError("too long"), false, "timeout"],
  [coded("ECONNRESET"), false, "reset"],
  [new errors.SocketError("other side closed"), false, "reset"],
  [new Error("without a code"), false, "reset"],
  [new Error("without a code"), true, "connect"],
  [coded("HPE_INVALID_CONSTANT"), false, "malformed"],
  [new errors.HeadersOverflowError("too large"), false, "malformed"],
];

test("what a connection failed of is told by its code", () => {
  for (const [cause, isUnsent, fault] of causes) {
    assert.equal(faultOfError(new SendError(cause, isUnsent)), fault, `${cause.message}, unsent: ${isUnsent}`);
  }
});

test("an answer that cannot be read is malformed; a refusal and our own errors say nothing", () => {
  assert.equal(faultOfError(new CallFailure({ name: "upstream_invalid" })), "malformed");
  assert.equal(faultOfError(new CallFailure({ name: "upstream_refused" })), undefined);
  assert.equal(faultOfError(new Error("ours")), undefined);
});

test("statuses", () => {
  const statuses = [400, 401, 404, 429, 500, 503, 529, 302, 204];
  const faults = ["4xx", "4xx", "4xx", "429", "5xx", "5xx", "5xx"].map((name) => `status_${name}`);
  assert.deepEqual(statuses.map(faultOfStatus), [...faults, "malformed", "malformed"]);
});

test("a stream that broke or stood still is its upstream's fault, one that anybody else ended is not", () => {
  const ends = ["upstream_timeout", "upstream_cut", "complete", "client_gone", "drained", "hold_exhausted"];
  assert.deepEqual(ends.map(faultOfEnd), ["timeout", "reset", undefined, undefined, undefined, undefined]);
});
