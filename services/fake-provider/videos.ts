import type { ServerResponse } from "node:http";
import { renderError } from "./errors.ts";
import { type ListenOptions, listenFake } from "./listen.ts";
import { type ReceivedRequest, receive } from "./receive.ts";
import { checkVideoBehaviour, type VideoBehaviour } from "./videos-behaviour.ts";
import { createVideoJobs, type VideoJob, type VideoJobs } from "./videos-jobs.ts";
import { serveVideos } from "./videos-serve.ts";

export type FakeVideosOptions = {
  host?: string;
  /** 0 or left out: any free port. */
  port?: number;
  /** The standing behaviour. */
  behaviour?: VideoBehaviour;
  /** Where the truth is appended, as lines of JSON. */
  truthFile?: string | undefined;
};

export type FakeVideos = AsyncDisposable &
  ListenOptions & {
    /** Every task that was taken, oldest first. */
    jobs: VideoJob[];
    /** The newest 1,000 requests, oldest first. */
    received: ReceivedRequest[];
    /** Sets the standing behaviour, also of tasks that run; a prompt's own fields win over it. */
    script: (behaviour: VideoBehaviour) => void;
    /** Forgets behaviour, tasks and requests. */
    forget: () => void;
  };

/**
 * Starts a server that makes videos like two providers: OpenAI's `/v1/videos` and Gemini's `predictLongRunning`. How a
 * task goes is scripted here or by its prompt (see `videoPrompt`).
 */
export async function startFakeVideos(options: FakeVideosOptions = {}): Promise<FakeVideos> {
  const received: ReceivedRequest[] = [];
  const jobs = createVideoJobs(options.truthFile);
  jobs.script(checkVideoBehaviour(options.behaviour ?? {}));
  const listening = await listenFake((request, response) => {
    receive(request)
      .then((whole) => serve(jobs, received, { received: whole, response }))
      .catch((error: unknown) => response.destroy(error as Error));
  }, options);
  return {
    ...listening,
    jobs: jobs.records,
    received,
    script: (behaviour) => jobs.script(checkVideoBehaviour(behaviour)),
    forget: () => {
      jobs.forget();
      received.length = 0;
    },
    [Symbol.asyncDispose]: async () => {
      await listening.close();
      jobs[Symbol.dispose]();
    },
  };
}

type Exchange = { received: ReceivedRequest; response: ServerResponse };

async function serve(jobs: VideoJobs, kept: ReceivedRequest[], { received, response }: Exchange): Promise<void> {
  // Asked by whoever starts this as a process; no request to a provider.
  if (received.path === "/readyz") return void response.end("ok\n");
  kept.push(received);
  if (kept.length > 1_000) kept.shift();
  if (await serveVideos(jobs, received, response)) return;
  const override = { message: `Invalid URL (${received.method} ${received.path})` };
  response.writeHead(404, { "content-type": "application/json" });
  response.end(renderError("chat", { status: 404, override, requestId: "" }));
}
