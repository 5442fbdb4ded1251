import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, test } from "node:test";
import { brotliCompressSync, constants, createGzip, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { createPools } from "#shared/catalog/pools.ts";
import { until } from "#shared/testing/until.ts";
import { askOver, serve, upstreamAt } from "../testing/sending.ts";
import { inflated } from "./inflated.ts";
import type { Answer } from "./send.ts";
import { readWhole } from "./whole.ts";

const text = JSON.stringify({ choices: "grün ".repeat(50_000) });

/** The answer to a request that a server answers so. */
async function answered<T>(
  answer: (response: ServerResponse) => void,
  use: (answer: Answer) => Promise<T>,
): Promise<T> {
  await using server = await serve((_, response) => answer(response));
  await using pools = createPools();
  return await use(inflated(await askOver(pools, upstreamAt(server.port)).answer));
}

/** All that comes of an answer, and what it fails with. */
function piecesOf(answer: Answer): Promise<{ text: string; error: Error | undefined }> {
  const pieces: Buffer[] = [];
  return new Promise((resolve) => {
    const over = (error?: Error): void => resolve({ text: Buffer.concat(pieces).toString(), error });
    answer.consume({ data: (piece) => void pieces.push(piece), end: () => over(), fail: over });
  });
}

describe("an answer that its provider has encoded though asked not to", () => {
  const encoders = {
    gzip: gzipSync,
    "X-Gzip": gzipSync,
    deflate: deflateSync,
    br: brotliCompressSync,
    zstd: zstdCompressSync,
  };
  for (const [encoding, encode] of Object.entries(encoders)) {
    test(`is inflated: ${encoding}`, async () => {
      const bytes = encode(text);
      const head = { "content-encoding": encoding, "content-length": bytes.length, "content-type": "application/json" };
      await answered(
        (response) => response.writeHead(200, head).end(bytes),
        async (answer) => {
          assert.equal(answer.headers["content-encoding"], undefined);
          assert.equal(answer.headers["content-length"], undefined);
          assert.equal(answer.headers["content-type"], "application/json");
          assert.equal((await readWhole(answer, 1_000_000)).toString(), text);
        },
      );
    });
  }

  test("stays as it is in an encoding that is unknown, and where several lie on top of each other", async () => {
    for (const encoding of ["compress", "gzip, gzip"]) {
      await answered(
        (response) => response.writeHead(200, { "content-encoding": encoding }).end("x"),
        async (answer) => {
          assert.equal(answer.headers["content-encoding"], encoding);
          assert.equal((await readWhole(answer, 10)).toString(), "x");
        },
      );
    }
  });

  test("comes event by event, as far as it was flushed", async () => {
    const gzip = createGzip();
    await answered(
      (response) => {
        response.writeHead(200, { "content-encoding": "gzip", "content-type": "text/event-stream" });
        gzip.pipe(response);
        gzip.write("data: 1\n\n");
        gzip.flush(constants.Z_SYNC_FLUSH);
      },
      async (answer) => {
        let come = "";
        let isOver = false;
        answer.consume({
          data: (piece) => (come += piece.toString()),
          end: () => (isOver = true),
          fail: (error) => assert.fail(error),
        });
        await until("the first has come", () => come === "data: 1\n\n");
        gzip.end("data: 2\n\n");
        await until("all is over", () => isOver);
        assert.equal(come, "data: 1\n\ndata: 2\n\n");
      },
    );
  });

  test("that breaks off is given as far as it came, then fails", async () => {
    const whole = gzipSync(text);
    for (const cut of ["the connection", "the bytes"]) {
      await answered(
        (response) => {
          response.writeHead(200, { "content-encoding": "gzip" });
          const begin = whole.subarray(0, whole.length - 100);
          if (cut === "the bytes") response.end(begin);
          else response.write(begin, () => setImmediate(() => response.destroy()));
        },
        async (answer) => {
          answer.pause();
          setImmediate(() => answer.resume());
          const { text: come, error } = await piecesOf(answer);
          assert.ok(come.length > 1_000 && text.startsWith(come), cut);
          assert.ok(error, cut);
        },
      );
    }
  });

  test("that is no such encoding fails", async () => {
    await answered(
      (response) => response.writeHead(200, { "content-encoding": "gzip" }).end("<html>"),
      async (answer) => assert.rejects(readWhole(answer, 10), /incorrect header/),
    );
  });

  for (const encoding of Object.keys(encoders)) {
    test(`that is not encoded though its head says ${encoding} is given as it came`, async () => {
      const plain = [text, `data: ${text}\n\n`, `event: error\ndata: ${text}\n\n`];
      for (const body of plain) {
        await answered(
          (response) => response.writeHead(200, { "content-encoding": encoding }).end(body),
          async (answer) => assert.equal((await readWhole(answer, 1_000_000)).toString(), body),
        );
      }
    });
  }

  test("breaks where it does, encoded or not", async () => {
    await answered(
      (response) => {
        response.writeHead(200, { "content-encoding": "gzip" });
        response.write("data: 1\n\n", () => response.destroy());
      },
      async (answer) => {
        const { text: come, error } = await piecesOf(answer);
        assert.deepEqual([come, error !== undefined], ["data: 1\n\n", true]);
      },
    );
  });

  test("waits for its reader", async () => {
    await answered(
      (response) => response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync(text)),
      async (answer) => {
        let come = "";
        let isOver = false;
        const data = (piece: Buffer): void => {
          come += piece.toString("latin1");
          answer.pause();
          setImmediate(() => answer.resume());
        };
        answer.consume({ data, end: () => (isOver = true), fail: (error) => assert.fail(error) });
        await until("all has come", () => isOver);
        assert.equal(come, Buffer.from(text).toString("latin1"));
      },
    );
  });

  test("is not inflated without an end", async () => {
    const bomb = zstdCompressSync(Buffer.alloc(64 * 1024 * 1024));
    await answered(
      (response) => response.writeHead(200, { "content-encoding": "zstd" }).end(bomb),
      async (answer) => assert.rejects(readWhole(answer, 1e9), /inflates too far/),
    );
  });

  test("ends at once where it is aborted", async () => {
    await answered(
      (response) => response.writeHead(200, { "content-encoding": "gzip" }).write(gzipSync(text)),
      async (answer) => {
        const over = piecesOf(answer);
        answer.abort();
        answer.abort();
        assert.match(String((await over).error), /not wanted/);
      },
    );
  });
});
