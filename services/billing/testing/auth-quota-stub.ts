import { AuthQuotaService, type PostRequest } from "#proto/authquota/v1/authquota_pb.ts";
import { serveGrpc, unaryHandlers, type UnaryHandlers } from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";
import type { AccountVersion } from "../store/funds.ts";
import { refusing } from "#shared/testing/refusing.ts";

/** A gRPC server that stands in for auth-quota: notes what it is told and lists what the test puts into its outbox. */
export type AuthQuotaStub = AsyncDisposable & {
  address: string;
  posts: PostRequest[];
  /** Encoded records by rid: its outbox. A Post that names the rid as final takes the record out. */
  unposted: Map<string, Uint8Array>;
  /** Ids of the accounts that it knows. */
  accounts: string[];
  /** Called at each ListAccounts before it is answered; may throw. */
  onListAccounts: () => Promise<void>;
  /** Called at each Post before it is answered; may throw or wait. */
  onPost: (request: PostRequest) => Promise<void>;
  /** Forgets all balances: what comes is of another ledger. */
  forget: () => void;
  /** Newest balance told of an account. */
  balanceOf: (accountId: string) => bigint | undefined;
};

export async function serveAuthQuotaStub(): Promise<AuthQuotaStub> {
  const balances = new Map<string, { balanceNanos: bigint; version: bigint }>();
  const handlers: UnaryHandlers<typeof AuthQuotaService> = {
    ...refusing(AuthQuotaService),
    post: async (request) => {
      await stub.onPost(request);
      stub.posts.push(request);
      const newer: AccountVersion[] = [];
      for (const { accountId, balanceNanos, version } of request.accounts) {
        const known = balances.get(accountId);
        if (!known || version > known.version) balances.set(accountId, { balanceNanos, version });
        else if (version < known.version) newer.push({ accountId, version: known.version });
        else if (balanceNanos !== known.balanceNanos) newer.push({ accountId, version: version + 1n });
      }
      for (const { rid, isFinal } of request.calls) if (isFinal) stub.unposted.delete(rid);
      return { newer };
    },
    listAccounts: async () => {
      await stub.onListAccounts();
      return { accounts: stub.accounts.map((accountId) => ({ accountId })) };
    },
    listUnposted: async ({ limit }) => ({ records: [...stub.unposted.values()].slice(0, limit) }),
  };
  const unary = unaryHandlers(AuthQuotaService, handlers, createLog("test", "silent"));
  const service = { ...unary, session: () => undefined };
  const server = await serveGrpc([[AuthQuotaService, service]], { host: "127.0.0.1", port: 0, drainMs: 100 });
  const stub: AuthQuotaStub = {
    address: `127.0.0.1:${server.port}`,
    posts: [],
    unposted: new Map(),
    accounts: [],
    onListAccounts: () => Promise.resolve(),
    onPost: () => Promise.resolve(),
    forget: () => balances.clear(),
    balanceOf: (accountId) => balances.get(accountId)?.balanceNanos,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
  return stub;
}
