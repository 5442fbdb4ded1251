import { create } from "@bufbuild/protobuf";
import { Registry } from "prom-client";
import {
  ListUnpostedRequestSchema,
  ListUnpostedResponseSchema,
  PostRequestSchema,
  PostResponseSchema,
} from "#proto/authquota/v1/authquota_pb.ts";
import { every } from "#shared/process/lifecycle.ts";
import { readProofKeys } from "#shared/money/hold-proof.ts";
import { holdProofKeys } from "#shared/testing/proof-keys.ts";
import type { Logger } from "#shared/process/log.ts";
import { createDecide } from "../../../services/auth-quota/session/decide.ts";
import { leaseMsOf } from "../../../services/auth-quota/session/operations.ts";
import { holdHandlers } from "../../../services/auth-quota/handlers/holds.ts";
import { createIdentities } from "../../../services/auth-quota/hot/identity.ts";
import { createLoad } from "../../../services/auth-quota/hot/load.ts";
import { createMoves } from "../../../services/auth-quota/hot/moves.ts";
import { createMetrics } from "../../../services/auth-quota/metrics.ts";
import { postHandler } from "../../../services/auth-quota/handlers/post.ts";
import { createRebuild } from "../../../services/auth-quota/hot/rebuild.ts";
import { createSessions } from "../../../services/auth-quota/session/session.ts";
import { answerCodes, createHotStore, need } from "../../../services/auth-quota/store/hot.ts";
import { findIdentities } from "../../../services/auth-quota/store/keys.ts";
import { createShards } from "../../../services/auth-quota/store/shards.ts";
import type { Database } from "../../../services/auth-quota/store/postgres.ts";
import { sweep } from "../../../services/auth-quota/hot/sweep.ts";
import type { AuthQuotaService, BillingClient } from "./neighbours.ts";
import { connectSimulatedRedis, type RedisServer } from "./redis-link.ts";
import type { Network } from "./network.ts";

export type AuthQuotaDeps = {
  name: string;
  network: Network;
  redises: readonly RedisServer[];
  database: Database;
  billing: BillingClient;
  relaySilentMs: number;
  rebuildMs: number;
  log: Logger;
};

// Rarer than in the product: most of these looks find nothing, and each is a run of the script.
const sweepMs = 5_000;
const rebuildCheckMs = 2_500;
const movesMs = 1_000;

const metrics = createMetrics(new Registry());
const proofKeys = readProofKeys(holdProofKeys);

/** Wires one process as the service's app.ts does, with the product's own parts. */
export function startAuthQuota(parts: AuthQuotaDeps): AuthQuotaService {
  const { name, network, redises, database, billing, log } = parts;
  const limits = { accountPerMinute: 1_000_000, ipPerMinute: 1_000_000, accountConcurrent: 0 };
  const stores = redises.map((redis) => ({
    ...createHotStore(connectSimulatedRedis(redis, network, name), limits),
    status: () => "ready",
  }));
  const shards = createShards(stores);
  const moves = createMoves({ database, shards, log });
  const load = createLoad(database, billing, shards);
  const identities = createIdentities(async (hashes) => {
    const found = await findIdentities(database, hashes);
    return new Map(found.map(({ hash, keyId, accountId }) => [hash, { keyId, accountId }]));
  });
  const leaseMs = leaseMsOf(parts);
  const sessions = createSessions(
    createDecide({ shards, identities, load, moves, proofKeys, leaseMs, metrics, log }),
    () => undefined,
    log,
  );
  const post = postHandler({ shards, moves, billing, metrics, log });
  const { listUnposted } = holdHandlers(shards, load);
  const rebuilding = {
    database,
    billing,
    moves,
    metrics,
    log,
    rebuildMs: parts.rebuildMs,
    repush: async () => undefined,
  };
  for (const hot of shards.all) {
    every(sweepMs, () => sweep({ hot, metrics, log }, parts.relaySilentMs), log);
    every(rebuildCheckMs, createRebuild({ hot, ...rebuilding }), log);
  }
  if (shards.all.length > 1) every(movesMs, () => moves.look().then(moves.advance), log);
  return {
    post: async (request) => create(PostResponseSchema, await post(create(PostRequestSchema, request))),
    listUnposted: async (request) =>
      create(ListUnpostedResponseSchema, await listUnposted(create(ListUnpostedRequestSchema, request))),
    pushKey: async (owner) => {
      const [answer] = await shards.of(owner.accountId).apply("", await load(need.key, owner));
      if (answer?.code !== answerCodes.moved) return;
      await moves.look(owner.accountId);
      throw new Error("the account has left the shard");
    },
    serve: sessions.handler as unknown as AuthQuotaService["serve"],
  };
}
