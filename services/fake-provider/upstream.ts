import { type Behaviour, checkBehaviour } from "./behaviour.ts";
import { type ListenOptions, listenFake } from "./listen.ts";
import { type RealtimeFake, serveRealtime } from "./realtime.ts";
import type { ReceivedRequest } from "./receive.ts";
import { createResponsesSockets, type ResponsesSockets, serveResponses } from "./responses-socket.ts";
import { type BehaviourSource, type Fake, serveFake } from "./serve.ts";
import { createTruthLog, type Truth } from "./truth.ts";

export type FakeOptions = {
  host?: string;
  /** 0 or left out: any free port. */
  port?: number;
  behaviour?: BehaviourSource;
  models?: string[];
  /** Requests to keep in `received`, with their bodies. */
  receivedLimit?: number;
  /** Records to keep in `truth`. */
  truthLimit?: number;
  /** Where the truth is appended, as lines of JSON. */
  truthFile?: string | undefined;
};

export type FakeUpstream = AsyncDisposable &
  ListenOptions & {
    /** The newest requests, oldest first. */
    received: ReceivedRequest[];
    /** What callers sent in sessions, oldest first, and the heads with which they opened them. */
    realtime: RealtimeFake["realtime"];
    handshakes: RealtimeFake["handshakes"];
    /** The sockets on which responses are asked for. */
    sockets: ResponsesSockets;
    /** What was really served, oldest first. */
    truth: Truth[];
    /** Sets the standing behaviour. */
    script: (behaviour: BehaviourSource) => void;
    /** Adds behaviours that serve one request each, in order, on top of the standing one. */
    scriptNext: (...behaviours: Behaviour[]) => void;
    /** Forgets all scripts, requests and truth. */
    forget: () => void;
  };

/**
 * Starts a server that answers like the real providers, whole and streamed: POST on every path of `fakePaths`
 * and Gemini's, GET /v1/models. What it says and how it fails is scripted here or by the request itself
 * (see `readBehaviour`); a field of the request's own behaviour wins over `scriptNext`, that over `script`. Videos are
 * another server's: `startFakeVideos`.
 */
export async function startFakeUpstream(options: FakeOptions = {}): Promise<FakeUpstream> {
  const fake: Fake = {
    received: [],
    receivedLimit: options.receivedLimit ?? 1_000,
    truthLog: createTruthLog(options.truthLimit ?? 100_000, options.truthFile),
    standing: options.behaviour ?? {},
    next: [],
    models: options.models ?? ["gpt-fake", "claude-fake"],
  };
  const realtime: RealtimeFake = {
    realtime: [],
    handshakes: [],
    nextBehaviour: () => ({ ...(typeof fake.standing === "function" ? {} : fake.standing), ...fake.next.shift() }),
  };
  const sockets = createResponsesSockets();
  const onUpgrade: NonNullable<Parameters<typeof listenFake>[1]["onUpgrade"]> = (request, socket, head) => {
    if (request.url === "/v1/responses") serveResponses({ fake, sockets }, request, socket, head);
    else serveRealtime(realtime, request, socket, head);
  };
  const listening = await listenFake(
    (request, response) => {
      serveFake(fake, request, response).catch((error: unknown) => response.destroy(error as Error));
    },
    { ...options, onUpgrade },
  );
  return {
    ...listening,
    received: fake.received,
    realtime: realtime.realtime,
    handshakes: realtime.handshakes,
    sockets,
    truth: fake.truthLog.records,
    ...scripting(fake),
    [Symbol.asyncDispose]: async () => {
      await listening.close();
      fake.truthLog[Symbol.dispose]();
    },
  };
}

function scripting(fake: Fake): Pick<FakeUpstream, "script" | "scriptNext" | "forget"> {
  return {
    script: (behaviour) => {
      fake.standing = typeof behaviour === "function" ? behaviour : checkBehaviour(behaviour);
    },
    scriptNext: (...behaviours) => {
      fake.next.push(...behaviours.map(checkBehaviour));
    },
    forget: () => {
      fake.standing = {};
      fake.next.length = 0;
      fake.received.length = 0;
      fake.truthLog.records.length = 0;
    },
  };
}
