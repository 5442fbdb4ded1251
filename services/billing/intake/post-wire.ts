import { create, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { PostRequestSchema } from "#proto/authquota/v1/authquota_pb.ts";
import {
  beginMessage,
  closePart,
  createWireWriter,
  putBytes,
  takeMessage,
  writeInt64,
  writeNumber,
  writeText,
  writtenBytes,
} from "#shared/protobuf/wire-writer.ts";

type PostRequest = MessageInitShape<typeof PostRequestSchema>;

const writer = createWireWriter();

/**
 * Encodes an authquota.v1.PostRequest: its many calls without an object and a schema for each, the few sums in front of
 * them by the schema.
 */
export function encodePost({ accounts = [], keys = [], calls = [] }: PostRequest): Buffer {
  beginMessage(writer);
  for (const call of calls.toReversed()) {
    const { rid = "", accountId = "", keyId = "", bookedNanos = 0n, isFinal = false, isLeased = false } = call;
    const before = writtenBytes(writer);
    writeNumber(writer, 6, isLeased ? 1 : 0);
    writeNumber(writer, 5, isFinal ? 1 : 0);
    writeText(writer, 4, keyId);
    writeText(writer, 3, accountId);
    writeInt64(writer, 2, bookedNanos);
    writeText(writer, 1, rid);
    closePart(writer, 3, before);
  }
  putBytes(writer, toBinary(PostRequestSchema, create(PostRequestSchema, { accounts, keys })));
  return takeMessage(writer);
}
