import { createServer, type Server } from "node:http";
import { type Behaviour, checkBehaviour } from "./fake-behaviour.ts";
import { type BehaviourSource, type Fake, type ReceivedRequest, serveFake } from "./fake-serve.ts";
import { createTruthLog, type Truth } from "./fake-truth.ts";
import { freePort } from "./free-port.ts";

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

export type FakeUpstream = AsyncDisposable & {
  /** Base address without a path. */
  url: string;
  port: number;
  /** The newest requests, oldest first. */
  received: ReceivedRequest[];
  /** What was really served, oldest first. */
  truth: Truth[];
  /** Sets the standing behaviour. */
  script: (behaviour: BehaviourSource) => void;
  /** Adds behaviours that serve one request each, in order, on top of the standing one. */
  scriptNext: (...behaviours: Behaviour[]) => void;
  /** Forgets all scripts, requests and truth. */
  forget: () => void;
  /** Breaks all connections and refuses new ones. */
  close: () => Promise<void>;
  /** Listens again on the same port. */
  reopen: () => Promise<void>;
};

/**
 * Starts a server that answers like the real providers, whole and streamed: POST on every path of `fakePaths`
 * and Gemini's, GET /v1/models. What it says and how it fails is scripted here or by the request itself
 * (see `readBehaviour`); a field of the request's own behaviour wins over `scriptNext`, that over `script`.
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
  const server = createServer((request, response) => {
    serveFake(fake, request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  // Callers keep connections for reuse; one that closes under them at rest would look like a fault nobody scripted.
  server.keepAliveTimeout = 600_000;
  server.requestTimeout = 0;
  const host = options.host ?? "127.0.0.1";
  const port = options.port ?? (await bindFreePort(server, host));
  if (!server.listening) await listen(server, host, port);
  const close = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  };
  return {
    url: `http://${host}:${port}`,
    port,
    received: fake.received,
    truth: fake.truthLog.records,
    ...scripting(fake),
    close,
    reopen: () => listen(server, host, port),
    [Symbol.asyncDispose]: async () => {
      await close();
      fake.truthLog[Symbol.dispose]();
    },
  };
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port, host, exclusive: true }, () => {
      server.removeListener("error", reject);
      resolve();
    });
  });
}

// A port outside the range of outgoing connections, so that it is still free when the upstream reopens.
async function bindFreePort(server: Server, host: string): Promise<number> {
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort();
    try {
      await listen(server, host, port);
      return port;
    } catch (error) {
      if (attempt === 5) throw error;
    }
  }
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
