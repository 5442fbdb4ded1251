import assert from "node:assert/strict";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { describe, test } from "node:test";
import { TaskState } from "#proto/video/v1/video_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { until } from "#shared/testing/until.ts";
import { drain } from "../drain.ts";
import { connectRaw, type RawClient } from "../testing/raw-client.ts";
import { taskWith } from "../testing/task-server.ts";
import { contentPath, startFiles, startWithFile, taskId, type Listener } from "../testing/video-files.ts";
import { ask, errorOf, startVideoRelay, type VideoRelay } from "../testing/video-relay.ts";

const file = Buffer.from("bytes of a video, which may be many");

const giveAll: Listener = (_request, response) => {
  response.writeHead(200, { "content-type": "video/mp4", "content-length": file.length, etag: '"e1"' }).end(file);
};

const download = (relay: VideoRelay, headers: Record<string, string> = {}, path = contentPath): Promise<Response> =>
  fetch(`${relay.url}${path}`, { headers: { authorization: "Bearer sk-right", ...headers } });

/** A caller on a bare socket, who asks for the file and reads nothing of the answer yet. */
async function askSlowly({ port }: VideoRelay): Promise<RawClient> {
  const client = await connectRaw(port, false);
  client.socket.write(`GET ${contentPath} HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer k\r\n\r\n`);
  return client;
}

describe("API spec, Endpoints: `GET /v1/videos/{task_id}/content` | A", () => {
  test("API spec, States and transitions: `completed` | the file comes as the provider gives it, with our request id", async () => {
    await using files = await startFiles(giveAll);
    await using relay = await startWithFile(files.port);
    const answer = await download(relay);
    assert.equal(answer.status, 200);
    assert.equal(Buffer.from(await answer.arrayBuffer()).toString(), file.toString());
    const { headers } = answer;
    assert.deepEqual(
      ["content-type", "content-length", "etag"].map((name) => headers.get(name)),
      ["video/mp4", String(file.length), '"e1"'],
    );
    assert.match(headers.get("x-request-id") ?? "", /^[0-9a-f-]{36}$/);
    const [asked] = files.seen;
    assert.deepEqual([asked?.method, asked?.url], ["GET", "/base/v1/videos/v1/content"]);
    assert.deepEqual(
      ["authorization", "x-own", "accept-encoding", "x-request-id"].map((name) => asked?.headers[name]),
      ["Bearer secret-of-ours", "of the operator", "identity", headers.get("x-request-id")],
    );
    await until("the download is over", () => relay.relay.videos.downloads.size === 0);
    const line = relay.lines.find((one) => one["endpoint"] === "/v1/videos/{task_id}/content");
    assert.deepEqual([line?.["status"], line?.["end"]], [200, "complete"]);
  });

  test("a provider of the other format gets its own credential header", async () => {
    await using files = await startFiles(giveAll);
    await using relay = await startWithFile(files.port, { upstream: { dialects: ["gemini-videos"] } });
    await (await download(relay)).arrayBuffer();
    const { headers } = files.seen[0] ?? {};
    assert.deepEqual([headers?.["x-goog-api-key"], headers?.authorization], ["secret-of-ours", undefined]);
  });

  test("ranges go to the provider and come back as it answers them", async () => {
    await using files = await startFiles(({ headers }, response) => {
      if (headers.range === "bytes=900-") response.writeHead(416, { "content-range": `bytes */${file.length}` }).end();
      else {
        const head = { "content-range": `bytes 2-5/${file.length}`, "accept-ranges": "bytes", "content-length": 4 };
        response.writeHead(206, head).end(file.subarray(2, 6));
      }
    });
    await using relay = await startWithFile(files.port);
    const part = await download(relay, { range: "bytes=2-5", "if-range": '"e1"' });
    assert.deepEqual([part.status, await part.text()], [206, "tes "]);
    assert.deepEqual(
      [part.headers.get("content-range"), part.headers.get("accept-ranges")],
      [`bytes 2-5/${file.length}`, "bytes"],
    );
    assert.deepEqual([files.seen[0]?.headers.range, files.seen[0]?.headers["if-range"]], ["bytes=2-5", '"e1"']);
    const beyond = await download(relay, { range: "bytes=900-" });
    assert.deepEqual([beyond.status, beyond.headers.get("content-range")], [416, `bytes */${file.length}`]);
    await beyond.arrayBuffer();
  });

  test("a caller who does not read keeps the provider waiting, not the file in memory", async () => {
    const size = 120_000_000;
    const piece = Buffer.alloc(100_000, "v");
    let given = 0;
    await using files = await startFiles((_request, response) => {
      response.writeHead(200, { "content-length": size });
      const pour = (): void => {
        let isFlowing = true;
        while (given < size && isFlowing) {
          given += piece.length;
          isFlowing = response.write(piece);
        }
        if (given < size) response.once("drain", pour);
        else response.end();
      };
      pour();
    });
    await using relay = await startWithFile(files.port);
    const client = await askSlowly(relay);
    let [before, same] = [-1, 0];
    await until("nothing moves any more", () => {
      same = given > 0 && given === before ? same + 1 : 0;
      before = given;
      return same > 20;
    });
    // What two connections of this machine hold by themselves is far less.
    assert.ok(given < 64_000_000, `the relay took ${given} bytes that nobody reads`);
    let came = 0;
    client.socket.on("data", (chunk: Buffer) => (came += chunk.length)).resume();
    await until("all has come", () => given === size && came > size);
    assert.equal(client.body().length, size);
    assert.ok(client.body().equals(Buffer.alloc(size, "v")));
    client.socket.destroy();
  });

  test("a file that breaks breaks the caller's connection, and so does one that stands still", async () => {
    await using files = await startFiles((_request, response) => {
      const isBreaking = files.seen.length === 1;
      const cut = (): void => void (isBreaking && response.socket?.end());
      response.writeHead(200, { "content-length": 1_000_000 }).write("begin", cut);
    });
    await using relay = await startWithFile(files.port, { bounds: { idleMs: 100 } });
    for (const end of ["upstream_cut", "stalled"]) {
      await assert.rejects(async () => (await download(relay)).arrayBuffer());
      await until(end, () => relay.lines.some((line) => line["end"] === end));
    }
    assert.equal(relay.relay.videos.downloads.size, 0);
  });

  test("a caller who reads nothing for too long is cut", async () => {
    await using files = await startFiles((_request, response) => {
      const pour = (): void => {
        while (response.write(Buffer.alloc(100_000)));
        response.once("drain", pour);
      };
      pour();
    });
    await using relay = await startWithFile(files.port, { bounds: { idleMs: 200 } });
    const client = await askSlowly(relay);
    await until("it is cut", () => relay.lines.some((line) => line["end"] === "stalled"));
    client.socket.destroy();
  });

  test("a caller who goes away lets the provider go", async () => {
    let isLeft = false;
    await using files = await startFiles((_request, response) => {
      response.once("close", () => (isLeft = true));
      response.writeHead(200, { "content-length": 1_000_000 }).write("begin");
    });
    await using relay = await startWithFile(files.port);
    const client = await askSlowly(relay);
    await until("the file begins", () => files.seen.length === 1 && relay.relay.videos.downloads.size === 1);
    client.socket.resetAndDestroy();
    await until("the provider is left", () => isLeft && relay.relay.videos.downloads.size === 0);
  });
});

describe("where a file is", () => {
  test("a redirect within the provider goes on with the credential", async () => {
    await using files = await startFiles((request, response) => {
      if (request.url === "/there") giveAll(request, response);
      else response.writeHead(302, { location: "/there" }).end("moved");
    });
    await using relay = await startWithFile(files.port);
    assert.equal(await (await download(relay)).text(), file.toString());
    assert.equal(files.seen[1]?.headers.authorization, "Bearer secret-of-ours");
  });

  test("a redirect elsewhere, and an address elsewhere, go without the credential, and never get it again", async () => {
    let providerUrl = "";
    await using store = await startFiles((request, response) => {
      if (request.url === "/back") response.writeHead(307, { location: `${providerUrl}/file` }).end();
      else giveAll(request, response);
    });
    const targets = ["/signed?x=1", "/back"];
    await using files = await startFiles((request, response) => {
      if (request.url === "/file") giveAll(request, response);
      else response.writeHead(302, { location: `${store.url}${targets.shift() ?? ""}` }).end();
    });
    providerUrl = files.url;
    await using relay = await startWithFile(files.port, { allowedPorts: [store.port, files.port] });
    for (let count = 0; count < 2; count += 1)
      assert.equal(await (await download(relay, { range: "bytes=0-" })).text(), file.toString());
    relay.taskServer.script.locateContent = async () => ({ upstream: "somewhere", url: `${store.url}/direct` });
    assert.equal(await (await download(relay)).text(), file.toString());
    const back = files.seen.filter(({ url }) => url === "/file");
    assert.deepEqual([store.seen.length, back.length], [3, 1]);
    for (const { headers } of [...store.seen, ...back]) {
      const secrets = Object.entries(headers).filter(([, value]) => /secret|operator/.test(String(value)));
      assert.deepEqual(secrets, []);
    }
    assert.equal(store.seen[0]?.headers.range, "bytes=0-");
  });

  // Where a provider must not lead us, apart from its own origin.
  const inward = [
    "https://169.254.169.254/latest/meta-data/",
    "https://10.0.0.1/",
    "http://127.0.0.1:1/",
    "http://example.com/",
    "file:///etc/passwd",
    "https://localhost/",
  ];
  for (const location of inward) {
    test(`a redirect to an address that is not public is not followed: ${location}`, async () => {
      await using files = await startFiles((_request, response) => void response.writeHead(302, { location }).end());
      await using relay = await startWithFile(files.port);
      assert.deepEqual(errorOf(await ask(relay, contentPath)).slice(0, 3), [502, "api_error", "server_error"]);
      relay.taskServer.script.locateContent = async () => ({ upstream: "somewhere", url: location });
      assert.equal((await ask(relay, contentPath)).status, 502, "nor is one that the task names");
    });
  }

  test("redirects without end, and answers that are encoded, are not followed", async () => {
    let isEncoded = false;
    await using files = await startFiles((_request, response) => {
      if (isEncoded) response.writeHead(200, { "content-encoding": "gzip" }).end("x");
      else response.writeHead(302, { location: "/again" }).end();
    });
    await using relay = await startWithFile(files.port);
    assert.equal((await ask(relay, contentPath)).status, 502);
    assert.equal(files.seen.length, 4);
    isEncoded = true;
    assert.equal((await ask(relay, contentPath)).status, 502);
  });
});

describe("a file that is not there", () => {
  const states: [string, TaskState, [number, string, string, string]][] = [
    [
      "Video generation errors: File requested before completion",
      TaskState.QUEUED,
      [400, "invalid_request_error", "task_not_ready", "The video is not ready yet"],
    ],
    [
      "States and transitions: 1. When content is requested before the task is completed, then 400 with code `task_not_ready`.",
      TaskState.IN_PROGRESS,
      [400, "invalid_request_error", "task_not_ready", "The video is not ready yet"],
    ],
    [
      "Video generation errors: File of a failed task requested",
      TaskState.FAILED,
      [400, "invalid_request_error", "task_failed", "The video generation failed"],
    ],
    [
      "States and transitions: 2. When content is requested for a failed task, then 400 with code `task_failed`.",
      TaskState.FAILED,
      [400, "invalid_request_error", "task_failed", "The video generation failed"],
    ],
  ];
  for (const [row, state, wanted] of states) {
    test(`API spec, ${row}`, async () => {
      await using relay = await startVideoRelay();
      relay.taskServer.tasks.set(taskId, { accountId: "acct_1", task: taskWith({ taskId, state }) });
      assert.deepEqual(errorOf(await ask(relay, contentPath)), wanted);
    });
  }

  test("API spec, Video generation errors: Wrong task ID or another account's task | 404 when downloading the file", async () => {
    await using relay = await startVideoRelay();
    const others = `video_${"b".repeat(32)}`;
    const task = taskWith({ taskId: others, state: TaskState.COMPLETED });
    relay.taskServer.tasks.set(others, { accountId: "acct_2", task });
    for (const id of [taskId, others, "wrong", "x".repeat(3_000)])
      assert.deepEqual(errorOf(await ask(relay, `/v1/videos/${id}/content`)), [
        404,
        "not_found_error",
        "task_not_found",
        "Task not found",
      ]);
  });

  for (const status of [404, 410]) {
    test(`API spec, States and transitions: 3. When the provider no longer keeps the file, then content request returns 410 with code \`artifact_gone\`. API spec, Video generation errors: Provider no longer keeps the file, by ${status}`, async () => {
      const wanted = [410, "not_found_error", "artifact_gone", "Artifact content is no longer available"];
      for (const encoding of ["identity", "gzip"]) {
        const headers = { "content-encoding": encoding };
        await using files = await startFiles((_, response) => void response.writeHead(status, headers).end("secret"));
        await using relay = await startWithFile(files.port);
        assert.deepEqual(errorOf(await ask(relay, contentPath)), wanted, encoding);
      }
    });
  }

  test("a provider that says 403 of a file which it has deleted is not mistaken for one that refuses our account", async () => {
    const refusals = ["You do not have permission to access the File x or it may not exist.", "Permission denied"];
    for (const [dialect, statuses] of [
      ["gemini-videos", [410, 503]],
      ["openai-videos", [503, 503]],
    ] as const) {
      const words = [...refusals];
      await using files = await startFiles((_, response) => {
        response.writeHead(403).end(JSON.stringify({ error: { code: 403, message: words.shift() } }));
      });
      await using relay = await startWithFile(files.port, { upstream: { dialects: [dialect] } });
      const told = [(await ask(relay, contentPath)).status, (await ask(relay, contentPath)).status];
      assert.deepEqual(told, statuses, dialect);
    }
  });

  test("another account's downloads take no place of this one", async () => {
    await using files = await startFiles(giveAll);
    await using relay = await startWithFile(files.port, { bounds: { maxDownloadsOfAccount: 1 } });
    relay.relay.videos.downloads.add({ upstreamId: "elsewhere", accountId: "acct_2", cut: () => undefined });
    assert.equal((await download(relay)).status, 200);
  });

  test("a variant is one of three, and one that the provider does not make is told so", async () => {
    await using files = await startFiles(giveAll);
    await using relay = await startWithFile(files.port);
    const asked: string[] = [];
    relay.taskServer.script.locateContent = async ({ variant }) => {
      asked.push(variant);
      throw new ServiceError("invalid_argument", "no such file");
    };
    const wrong = errorOf(await ask(relay, `${contentPath}?variant=poster`));
    assert.deepEqual(wrong.slice(0, 3), [400, "invalid_request_error", "invalid_request"]);
    const absent = errorOf(await ask(relay, `${contentPath}?variant=thumbnail`));
    assert.deepEqual([absent[0], absent[3]], [400, "the provider of this video makes no thumbnail"]);
    await ask(relay, contentPath);
    assert.deepEqual(asked, ["thumbnail", "video"]);
  });
});

describe("downloads are bounded", () => {
  for (const [what, setup] of [
    ["of the process", { bounds: { maxDownloads: 1 } }],
    ["of an upstream", { upstream: { maxConcurrent: 1 } }],
    ["of an account", { bounds: { maxDownloadsOfAccount: 1 } }],
  ] as const) {
    test(`${what}: one more is a 503, and calls have connections of their own`, async () => {
      const waiting: ServerResponse[] = [];
      await using files = await startFiles((_request, response) => void waiting.push(response));
      await using relay = await startWithFile(files.port, setup);
      const first = download(relay);
      await until("one is under way", () => waiting.length === 1);
      assert.equal((await ask(relay, contentPath)).status, 503);
      waiting[0]?.end("done");
      assert.equal(await (await first).text(), "done");
      const next = download(relay);
      await until("there is room again", () => waiting.length === 2);
      waiting[1]?.end("done");
      assert.equal(await (await next).text(), "done");
    });
  }

  test("a relay that stops lets them end, and cuts at the end of its time what is left", async () => {
    await using files = await startFiles((_request, response) => {
      response.writeHead(200, { "content-length": 1_000_000 }).write("begin");
    });
    await using relay = await startWithFile(files.port);
    const client = await askSlowly(relay);
    client.socket.resume();
    await until("the file begins", () => client.body().length > 0);
    await Promise.all([drain(relay.app, relay.relay, 50), once(client.socket, "close")]);
    await until("it is told", () => relay.lines.some((line) => line["end"] === "drained"));
  });
});
