import type { Operation } from "#proto/authquota/v1/authquota_pb.ts";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { connectGrpc, serveGrpc, unaryClient, unaryHandlers } from "#shared/grpc/grpc.ts";
import { readProofKeys } from "#shared/money/hold-proof.ts";
import { createLog } from "#shared/process/log.ts";
import { createRegistry } from "#shared/metrics/ops.ts";
import { readConfig } from "../../../services/auth-quota/config.ts";
import { createDecide } from "../../../services/auth-quota/session/decide.ts";
import { createIdentities } from "../../../services/auth-quota/hot/identity.ts";
import { createLoad } from "../../../services/auth-quota/hot/load.ts";
import { createMoves } from "../../../services/auth-quota/hot/moves.ts";
import { createMetrics } from "../../../services/auth-quota/metrics.ts";
import {
  emptyOperation,
  type Result,
  type SessionOperation,
} from "../../../services/auth-quota/session/session-wire.ts";
import { findIdentities } from "../../../services/auth-quota/store/keys.ts";
import { connectPostgres } from "../../../services/auth-quota/store/postgres.ts";
import { openShards, takeLayout } from "../../../services/auth-quota/open-shards.ts";
import { UnaryService } from "./unary-contract.ts";

// The naive way to the same decisions: auth-quota's own decide(), Redis and PostgreSQL behind a unary call instead of
// a stream of batches. It works beside a real auth-quota, which looks after Redis.
const config = readConfig(process.env);
const log = createLog("unary auth-quota", config.LOG_LEVEL);
const database = connectPostgres(config.DATABASE_URL, log);
const billing = unaryClient(BillingService, connectGrpc(config.BILLING_ADDRESS), 5_000);
const resources = new AsyncDisposableStack();
const layout = await takeLayout(database, config.REDIS_SHARDS, log);
const { shards } = openShards(config, layout, { resources, log });
const decide = createDecide({
  shards,
  identities: createIdentities(async (hashes) => {
    const found = await findIdentities(database, hashes);
    return new Map(found.map(({ hash, keyId, accountId }) => [hash, { keyId, accountId }]));
  }),
  load: createLoad(database, billing, shards),
  moves: createMoves({ database, shards, log }),
  proofKeys: readProofKeys(config.HOLD_PROOF_KEYS),
  leaseMs: 0,
  metrics: createMetrics(createRegistry("unary-auth-quota")),
  log,
});

const numberFields = new Set(["estimateNanos", "costNanos"]);

/** Operations as the session's codec decodes them; only those of the bench. */
function sessionOperationOf({ operation: { case: name, value } }: Operation): SessionOperation {
  const fields = Object.entries({ ...value }).map(([field, content]) => {
    if (numberFields.has(field)) return [field, Number(content)] as const;
    return [field, content instanceof Uint8Array ? Buffer.from(content) : content] as const;
  });
  return { ...emptyOperation(name ?? "none"), ...Object.fromEntries(fields) };
}

const toMessage = ({ heldNanos, checkpointNanos, ...result }: Result) => ({
  ...result,
  heldNanos: BigInt(heldNanos ?? 0),
  checkpointNanos: BigInt(checkpointNanos ?? 0),
});

const handlers = unaryHandlers(
  UnaryService,
  {
    decide: async ({ relaySession, operations }) => {
      const { results, generation } = await decide(relaySession, operations.map(sessionOperationOf));
      return { results: results.map(toMessage), generation };
    },
  },
  log,
);
const place = { host: config.GRPC_HOST, port: config.GRPC_PORT, drainMs: config.DRAIN_MS };
const { port } = await serveGrpc([[UnaryService, handlers]], place);
process.stdout.write(`${JSON.stringify({ port })}\n`);
