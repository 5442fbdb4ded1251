import type { BodyShare } from "../http/body-budget.ts";
import { CallFailure } from "../failures.ts";
import { FetchRefusedError } from "#shared/net/guarded-agent.ts";
import { fetchGuarded, type Fetched, type FetchLimits } from "./fetch-guarded.ts";

const mediaLimits: FetchLimits = { maxBytes: 20_971_520, timeoutMs: 15_000 };
const maxUrls = 16;
const shownLength = 200;

// What is fetched is kept as bytes and as base64, which is a third longer, until the call ends.
const bytesInMemory = (bytes: number): number => Math.ceil((bytes * 7) / 3);

export type FetchUrl = (url: string, limits: FetchLimits) => Promise<Fetched>;

export type MediaFetching = {
  /** What the media hold of the budget for bodies. */
  share: Pick<BodyShare, "claim">;
  /** Aborted when the caller has left, whose share is given back then. */
  signal?: AbortSignal;
  /** Left out: through the guard against addresses that are not public. */
  fetchUrl?: FetchUrl;
};

/** Fetches what a caller gave the address of. Throws `field_invalid`. */
export async function fetchAddress(url: string, limits: FetchLimits, fetchUrl: FetchUrl): Promise<Fetched> {
  try {
    return await fetchUrl(url, limits);
  } catch (error) {
    if (!(error instanceof FetchRefusedError)) throw error;
    // The caller learns nothing of what the name resolves to; the cause is in the log.
    const detail = `the address ${url.slice(0, shownLength)} could not be read`;
    throw new CallFailure({ name: "field_invalid", detail, cause: error });
  }
}

/** What stands behind addresses, by address. */
export type FetchedMedia = ReadonlyMap<string, { mediaType: string; data: string }>;

/**
 * Fetches pictures and files, for providers that read no addresses. At most 16 of them, 20 MB and 15 s each. Throws
 * `field_invalid`, or `service_unavailable` when the budget has no room.
 */
export async function fetchUrls(urls: readonly string[], fetching: MediaFetching): Promise<FetchedMedia> {
  const { share, signal, fetchUrl = fetchGuarded } = fetching;
  if (urls.length > maxUrls) {
    throw new CallFailure({ name: "field_invalid", detail: `more than ${maxUrls} addresses cannot be read` });
  }
  const fetched = new Map<string, { mediaType: string; data: string }>();
  let kept = 0;
  const claim = (bytes: number): void => {
    if (share.claim(kept + bytesInMemory(bytes))) return;
    throw new CallFailure({ name: "service_unavailable", cause: "no room for media" });
  };
  const limits = { ...mediaLimits, onBytes: claim, ...(signal && { signal }) };
  for (const url of urls) {
    const { contentType = "application/octet-stream", body } = await fetchAddress(url, limits, fetchUrl);
    claim(body.length);
    kept += bytesInMemory(body.length);
    fetched.set(url, { mediaType: contentType.split(";", 1)[0]?.trim() ?? "", data: body.toString("base64") });
  }
  return fetched;
}
