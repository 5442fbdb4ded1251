import { fileURLToPath } from "node:url";
import { openBucket, type BucketLogin } from "./bucket.ts";
import { openFolder } from "./folder.ts";
import type { ArchivePlace } from "./place.ts";

/** The archive of a URL: `file:///folder`, or `https://host/bucket/prefix` of an S3-compatible store. */
export const openPlace = (url: string, login: BucketLogin): ArchivePlace =>
  url.startsWith("file:") ? openFolder(fileURLToPath(url)) : openBucket(url, login);
