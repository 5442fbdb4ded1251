import { crc32 } from "node:zlib";

/**
 * The number by which an account's shard of hot money is chosen: the CRC-32 of its id (as in zip and PNG), of which the
 * rest by the number of shards counts. It never changes.
 */
export const accountHash = (accountId: string): number => crc32(accountId);
