import { create, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { PostRequestSchema } from "#proto/authquota/v1/authquota_pb.ts";
import { lengthTag, varintTag } from "#shared/wire-reader.ts";

type PostRequest = MessageInitShape<typeof PostRequestSchema>;
type Call = NonNullable<PostRequest["calls"]>[number];

/**
 * Encodes an authquota.v1.PostRequest, its many calls without an object and a schema for each. What does not fit this
 * way of writing is written by the schema.
 */
export function encodePost({ accounts = [], keys = [], calls = [] }: PostRequest): Buffer {
  const head = toBinary(PostRequestSchema, create(PostRequestSchema, { accounts, keys }));
  const tail = encodeCalls(calls) ?? toBinary(PostRequestSchema, create(PostRequestSchema, { calls }));
  return Buffer.concat([head, tail]);
}

// A length of one byte, on the outside too.
const mostInCall = 127;
const bytesAroundCall = 2;

function encodeCalls(calls: readonly Call[]): Buffer | undefined {
  const bytes = Buffer.allocUnsafe(calls.length * (bytesAroundCall + mostInCall));
  let at = 0;
  for (const call of calls) {
    // Each character is a byte at least: what would not fit is seen before it is written.
    const { rid = "", accountId = "", keyId = "" } = call;
    if (rid.length + accountId.length + keyId.length + bytesBesideIds > mostInCall) return undefined;
    const end = writeCall(bytes, at + bytesAroundCall, call);
    if (end === undefined) return undefined;
    bytes[at] = lengthTag(3);
    bytes[at + 1] = end - at - bytesAroundCall;
    at = end;
  }
  return bytes.subarray(0, at);
}

// Three ids with tag and length, an amount of up to eight bytes with its tag, and whether the call is final.
const bytesBesideIds = 3 * 2 + 9 + 2;
const asciiOnly = /^[\x20-\x7e]*$/;

function writeCall(bytes: Buffer, from: number, call: Call) {
  const { rid = "", accountId = "", keyId = "", bookedNanos = 0n, isFinal = false } = call;
  const nanos = Number(bookedNanos);
  if (!(nanos >= 0 && nanos <= Number.MAX_SAFE_INTEGER)) return undefined;
  if (!asciiOnly.test(accountId) || !asciiOnly.test(keyId) || !asciiOnly.test(rid)) return undefined;
  let at = writeText(bytes, from, lengthTag(1), rid);
  if (nanos > 0) {
    bytes[at] = varintTag(2);
    at = writeVarint(bytes, at + 1, nanos);
  }
  at = writeText(bytes, at, lengthTag(3), accountId);
  at = writeText(bytes, at, lengthTag(4), keyId);
  if (!isFinal) return at;
  bytes[at] = varintTag(5);
  bytes[at + 1] = 1;
  return at + 2;
}

function writeText(bytes: Buffer, at: number, tag: number, text: string): number {
  if (text === "") return at;
  bytes[at] = tag;
  bytes[at + 1] = text.length;
  return at + 2 + bytes.write(text, at + 2, "latin1");
}

function writeVarint(bytes: Buffer, from: number, value: number): number {
  let at = from;
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes[at++] = (rest % 128) | 128;
  bytes[at] = rest;
  return at + 1;
}
