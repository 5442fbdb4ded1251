import type { Dispatcher } from "undici";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { videoDialectOf } from "#shared/catalog/video-dialects.ts";
import { upstreamHeaders as geminiHeaders } from "../dialects/gemini-generate/request.ts";
import { bearer } from "../dialects/openai-shared/bearer.ts";
import { CallFailure } from "../failures.ts";
import { checkUrl, FetchRefusedError, guardedAgent } from "#shared/net/guarded-agent.ts";
import { maxRedirects, redirectOf } from "../conversion/fetch-guarded.ts";
import { send, SendError, type Answer, type SendSignal } from "../upstream/send.ts";
import type { Videos } from "./videos.ts";

/** A file at a provider, as the service of videos locates it. */
export type FilePlace = { upstream: Upstream; url: string };

export type OpeningFile = {
  place: FilePlace;
  /** What the caller wants of the file: name, value, name, value. */
  headers: string[];
  signal: SendSignal;
};

/** An opened file; its connection ends with `close`. */
export type OpenFile = { answer: Answer; isOwn: boolean; close: () => Promise<void> };

/** A place on the way to a file. Once the way has left the upstream's own origin, none is its own again. */
type Hop = { url: URL; isOwn: boolean };

// The file as it is: what a provider encodes, a range of it would be a range of something else.
const standardHeaders = ["accept", "*/*", "accept-encoding", "identity", "user-agent", "model-relay"];

function credentialOf(upstream: Upstream): string[] {
  const { credential, headers } = upstream;
  const isGemini = videoDialectOf(upstream) === "gemini-videos";
  return [...(isGemini ? geminiHeaders(credential) : bearer(credential)), ...headers];
}

const noClose = async (): Promise<void> => undefined;

/**
 * Asks one place. The credential, the operator's headers, and the upstream's proxy and certificates are for its own
 * origin, which the operator has named and which may be private; any other is reached through the guard, without them.
 */
async function ask({ url, isOwn }: Hop, opening: OpeningFile, videos: Videos): Promise<OpenFile> {
  const { upstream } = opening.place;
  const agent = isOwn ? undefined : guardedAgent(videos.fetchRules, upstream.firstByteTimeoutMs);
  const dispatcher: Dispatcher = agent ?? videos.filePools.poolOf(upstream);
  const close = agent ? () => agent.destroy() : noClose;
  try {
    const answer = await send(dispatcher, {
      origin: url.origin,
      path: `${url.pathname}${url.search}`,
      headers: [...standardHeaders, ...opening.headers, ...(isOwn ? credentialOf(upstream) : [])],
      signal: opening.signal,
      totalTimeoutMs: upstream.totalTimeoutMs,
      onOver: () => undefined,
    });
    return { answer, isOwn, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function discard({ answer, close }: OpenFile): Promise<void> {
  answer.consume({ data: () => undefined, end: () => undefined, fail: () => undefined });
  answer.abort();
  await close();
}

/** The next place. Throws FetchRefusedError when it may not be asked. */
function follow(text: string, from: Hop | undefined, { upstream }: FilePlace, { fetchRules }: Videos): Hop {
  const url = URL.parse(text, from?.url.href);
  const isOwn = from?.isOwn !== false && url !== null && url.origin === upstream.baseUrl.origin;
  return isOwn ? { url, isOwn } : { url: checkUrl(text, from?.url, fetchRules), isOwn };
}

/**
 * Opens a file where it is, over at most three redirects. Gives the head of the answer, whatever its status. Throws
 * `upstream_invalid` where the way leads to what must not be asked, and a SendError when there is no answer.
 */
export async function openFile(opening: OpeningFile, videos: Videos): Promise<OpenFile> {
  const { place } = opening;
  try {
    let hop = follow(place.url, undefined, place, videos);
    for (let redirects = 0; ; redirects += 1) {
      const file = await ask(hop, opening, videos);
      const location = redirectOf(file.answer.status, file.answer.headers["location"]);
      if (location === undefined) return file;
      await discard(file);
      if (redirects === maxRedirects) throw new FetchRefusedError(`more than ${maxRedirects} redirects`);
      hop = follow(location, hop, place, videos);
    }
  } catch (error) {
    // A name that may not be asked is found out when it is resolved for the connection.
    const refusal = error instanceof SendError ? error.cause : error;
    if (refusal instanceof FetchRefusedError) throw new CallFailure({ name: "upstream_invalid", cause: refusal });
    throw error;
  }
}
