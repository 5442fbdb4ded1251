import { createHash } from "node:crypto";
import { createWriteStream, openAsBlob } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { AwsClient } from "aws4fetch";
import { ArchiveFault, hashOfFile, type ArchivePlace } from "./place.ts";

/** How an S3-compatible store knows this service. */
export type BucketLogin = { accessKeyId: string; secretAccessKey: string; region: string };

// A file of 256 MiB over a slow line; what is short is over long before.
const longestMs = 1_800_000;
// The store's own words, as far as they help.
const shownLength = 300;
const tries = 3;

/** A bucket and a prefix, as in `https://s3.eu-central-1.amazonaws.com/bucket/prefix`. */
export function openBucket(url: string, login: BucketLogin): ArchivePlace {
  const client = new AwsClient({ ...login, service: "s3", retries: tries });
  const base = url.replace(/\/+$/, "");
  const ask = async (name: string, init: RequestInit, stop: AbortSignal): Promise<Response> => {
    const signal = AbortSignal.any([stop, AbortSignal.timeout(longestMs)]);
    try {
      return await client.fetch(`${base}/${name}`, { ...init, signal });
    } catch (error) {
      throw new ArchiveFault(`the archive does not answer: ${String(error)}`, { cause: error });
    }
  };
  const put = async (name: string, body: Blob | string, sha256: string, stop: AbortSignal): Promise<void> => {
    const answer = await ask(name, { method: "PUT", body, headers: { "x-amz-content-sha256": sha256 } }, stop);
    if (!answer.ok) throw await refusal(name, answer);
    await answer.arrayBuffer();
  };
  return {
    putFile: async (name, path, stop) => put(name, await openAsBlob(path), await hashOfFile(path), stop),
    putText: (name, text, stop) => put(name, text, createHash("sha256").update(text).digest("hex"), stop),
    getFile: async (name, path, stop) => {
      const answer = await ask(name, {}, stop);
      if (!answer.ok || !answer.body) throw await refusal(name, answer);
      await pipeline(Readable.fromWeb(answer.body), createWriteStream(path));
    },
    getText: async (name, stop) => {
      const answer = await ask(name, {}, stop);
      if (answer.status === 404) return undefined;
      if (!answer.ok) throw await refusal(name, answer);
      return await answer.text();
    },
  };
}

async function refusal(name: string, answer: Response): Promise<ArchiveFault> {
  const words = (await answer.text()).slice(0, shownLength);
  return new ArchiveFault(`the archive refuses ${name}: ${answer.status} ${words}`);
}
