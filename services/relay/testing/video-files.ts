import type { IncomingMessage, ServerResponse } from "node:http";
import { TaskState } from "#proto/video/v1/video_pb.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { upstreamOf } from "./fakes.ts";
import { serveHttp } from "./raw-client.ts";
import { taskWith } from "./task-server.ts";
import { startVideoRelay, videoModelOf } from "./video-relay.ts";

/** The video that there is, and the path of its file. */
export const taskId = `video_${"a".repeat(32)}`;
export const contentPath = `/v1/videos/${taskId}/content`;

export type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/** A provider, or somebody else who has files, that keeps what it was asked. */
export async function startFiles(listener: Listener) {
  const seen: IncomingMessage[] = [];
  const server = await serveHttp((request, response) => {
    seen.push(request);
    listener(request, response);
  });
  const url = `http://127.0.0.1:${server.port}`;
  return { seen, port: server.port, url, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

type Setup = {
  bounds?: NonNullable<Parameters<typeof startVideoRelay>[0]>["bounds"];
  allowedPorts?: number[];
  upstream?: Partial<Upstream>;
  /** Where the file is; left out: at the provider. */
  url?: string;
};

/** A relay with one completed video, whose file is at a provider of that port. */
export async function startWithFile(port: number, { bounds, allowedPorts, upstream: changes, url }: Setup = {}) {
  const baseUrl = new URL(`http://127.0.0.1:${port}/base`);
  const upstream = upstreamOf({
    dialects: ["openai-videos"],
    headers: ["x-own", "of the operator"],
    baseUrl,
    ...changes,
  });
  const route = { upstream, model: "m", priority: 0, weight: 0 };
  const relay = await startVideoRelay({
    models: [videoModelOf({ routes: [route] })],
    ...(bounds && { bounds }),
    ...(allowedPorts && { allowedPorts }),
  });
  relay.taskServer.tasks.set(taskId, {
    accountId: "acct_1",
    task: taskWith({ taskId, state: TaskState.COMPLETED }),
  });
  relay.taskServer.script.locateContent = async () => ({
    upstream: upstream.name,
    url: url ?? `http://127.0.0.1:${port}/base/v1/videos/v1/content`,
  });
  return relay;
}
