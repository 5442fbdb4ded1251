import type { ServerResponse } from "node:http";
import { listenFake } from "#fake-provider/listen.ts";
import { receive, type ReceivedRequest } from "#fake-provider/receive.ts";

/** The API on a socket, answering as a test says. */
export type FakeApi = AsyncDisposable & {
  url: string;
  /** What came, oldest first. */
  received: ReceivedRequest[];
  /** Answers from now on. */
  answer: (response: ServerResponse, request: ReceivedRequest) => void;
};

/** Answers as a test says. */
export async function startFakeApi(): Promise<FakeApi> {
  const received: ReceivedRequest[] = [];
  const listening = await listenFake((request, response) => {
    void receive(request).then((one) => {
      received.push(one);
      api.answer(response, one);
    });
  }, {});
  const api: FakeApi = {
    url: listening.url,
    received,
    answer: (response) => response.writeHead(500).end(),
    [Symbol.asyncDispose]: listening.close,
  };
  return api;
}

/** An event of a streamed chat completion. */
export const chatEvent = (content: string, finish: string | null = null): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: finish }] })}\n\n`;

export const chatEnd = `${chatEvent("", "stop")}data: [DONE]\n\n`;
