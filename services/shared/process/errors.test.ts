import assert from "node:assert/strict";
import { test } from "node:test";
import { status } from "@grpc/grpc-js";
import { errorTable, ServiceError, toServiceError } from "./errors.ts";

const grpcError = (code: number, details: string): Error => Object.assign(new Error("wire"), { code, details });

test("every row of the table has a gRPC status of its own, so that a code survives the wire", () => {
  const statuses = Object.values(errorTable).map((row) => row.grpcStatus);
  assert.equal(new Set(statuses).size, statuses.length);
});

test("a gRPC error becomes the row of its status, with the words of the other side and itself as cause", () => {
  for (const [code, row] of Object.entries(errorTable)) {
    const thrown = grpcError(row.grpcStatus, "words");
    const error = toServiceError(thrown);
    assert.deepEqual([error.code, error.message, error.cause], [code, "words", thrown]);
  }
});

test("a call that took too long is unavailable, so that it may be tried again", () => {
  const { code } = toServiceError(grpcError(status.DEADLINE_EXCEEDED, "Deadline exceeded"));
  assert.equal(code, "unavailable");
  assert.equal(errorTable[code].isRetryable, true);
});

test("a status that is not in the table is internal", () => {
  assert.equal(toServiceError(grpcError(status.DATA_LOSS, "words")).code, "internal");
});

test("unknown errors never show their text; it stays in the cause", () => {
  for (const thrown of [new Error("password=hunter2"), "hunter2", { code: 5, details: "hunter2" }, undefined, null]) {
    const error = toServiceError(thrown);
    assert.deepEqual([error.code, error.message, error.cause], ["internal", "internal error", thrown]);
  }
});

test("a system error with a code but no details is not taken for a gRPC error", () => {
  const refused = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
  assert.equal(toServiceError(refused).message, "internal error");
});

test("a ServiceError passes as it is", () => {
  const error = new ServiceError("not_found", "no such account");
  assert.equal(toServiceError(error), error);
});
