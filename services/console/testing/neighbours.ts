import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate, timestampMs, timestampNow, type Timestamp } from "@bufbuild/protobuf/wkt";
import {
  AccountSchema,
  AccountStatus,
  AuthQuotaService,
  type GetMaintenanceResponseSchema,
  type ListRefusalsResponseSchema,
  KeySchema,
  KeyStatus,
  type Account,
  type Key,
} from "#proto/authquota/v1/authquota_pb.ts";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { RelayService } from "#proto/relay/v1/relay_pb.ts";
import { VideoTaskService } from "#proto/video/v1/video_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { serverStreamHandlers } from "#shared/grpc/stream.ts";
import { serveGrpc, unaryHandlers, type UnaryHandlers } from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";
import { maxAccountNanos } from "#shared/money/money.ts";
import { refusing } from "#shared/testing/refusing.ts";
import { createCatalogNeighbour } from "./catalog-neighbour.ts";
import { createOperatorNeighbour } from "./operator-neighbour.ts";
import { createRelayNeighbour } from "./relay-neighbour.ts";
import { createUsageNeighbour } from "./usage-neighbour.ts";
import { createVideoNeighbour } from "./video-neighbour.ts";
import { createVoucherNeighbour } from "./voucher-neighbour.ts";

/** The services as far as the console asks them, from memory, over real gRPC. */
export type Neighbours = AsyncDisposable & {
  authQuotaAddress: string;
  billingAddress: string;
  videoTaskAddress: string;
  relayAddress: string;
  usage: ReturnType<typeof createUsageNeighbour>;
  vouchers: ReturnType<typeof createVoucherNeighbour>;
  operators: ReturnType<typeof createOperatorNeighbour>;
  videos: ReturnType<typeof createVideoNeighbour>;
  relays: ReturnType<typeof createRelayNeighbour>;
  catalogs: ReturnType<typeof createCatalogNeighbour>;
  accounts: Map<string, Account>;
  keys: Map<string, Key>;
  balances: Map<string, bigint>;
  /** What two calls of each account hold. */
  held: { nanos: bigint };
  /** When the last charge of a key was booked. */
  charged: Map<string, Date>;
  /** What a key has spent; 0.007 USD where nothing is said. */
  spent: Map<string, bigint>;
  /** What was refused to the callers of an account. */
  refused: Map<string, MessageInitShape<typeof ListRefusalsResponseSchema>>;
  /** Whether the operators have closed the API. */
  maintenance: MessageInitShape<typeof GetMaintenanceResponseSchema>;
  /** What was asked that changes something, or names a secret: `method` and the request. */
  received: { method: string; request: object }[];
  /** While set, every call fails with it. */
  failure: ServiceError | undefined;
  /** Fails calls of this method only after they were done, as a connection that breaks does. */
  breakAfter: string;
  addAccount: (accountId: string, name?: string) => void;
  /** Adds a key and tells its id. */
  addKey: (accountId: string, name: string) => string;
};

type State = Omit<Neighbours, `${string}Address` | "addAccount" | "addKey" | typeof Symbol.asyncDispose>;

const byBytes = (a: { accountId: string }, b: { accountId: string }): number =>
  Buffer.compare(Buffer.from(a.accountId), Buffer.from(b.accountId));

function found<T>(map: Map<string, T>, id: string): T {
  const value = map.get(id);
  if (value === undefined) throw new ServiceError("not_found", `${id} does not exist`);
  return value;
}

function accountCalls({ accounts, balances, held, maintenance }: State) {
  return {
    createAccount: async ({ accountId, name, requestsPerMinute, maxConcurrent }) => {
      const id = accountId === "" ? `acct_${accounts.size}` : accountId;
      if (accounts.has(id)) throw new ServiceError("already_exists", `account ${id} exists already`);
      const settings = { name, requestsPerMinute, maxConcurrent, status: AccountStatus.ACTIVE };
      const account = create(AccountSchema, { accountId: id, ...settings });
      accounts.set(id, account);
      return { account };
    },
    updateAccount: async (request) => {
      const { accountId, name, status, requestsPerMinute, maxConcurrent, limitNanos, limitPeriod } = request;
      const account = found(accounts, accountId);
      account.name = name ?? account.name;
      account.status = status === AccountStatus.UNSPECIFIED ? account.status : status;
      account.requestsPerMinute = requestsPerMinute ?? account.requestsPerMinute;
      account.maxConcurrent = maxConcurrent ?? account.maxConcurrent;
      if (limitNanos !== undefined) Object.assign(account, { limitNanos, limitPeriod });
      if (request.clearLimit) delete account.limitNanos;
      return { account };
    },
    getAccounts: async ({ accountIds }) => ({
      accounts: accountIds.map((id) => accounts.get(id)).filter((account) => account !== undefined),
    }),
    listAccounts: async ({ afterAccountId, limit, search }) => {
      const after = { accountId: afterAccountId };
      const isFound = ({ accountId, name }: Account): boolean =>
        `${accountId} ${name}`.toLowerCase().includes(search.toLowerCase());
      const all = [...accounts.values()].toSorted(byBytes).filter((account) => byBytes(account, after) > 0);
      return { accounts: all.filter(isFound).slice(0, limit) };
    },
    getMaintenance: async () => maintenance,
    setMaintenance: async ({ isMaintenance }) => {
      const changedAt = timestampNow();
      Object.assign(maintenance, { isMaintenance, changedAt });
      return { isMaintenance, changedAt };
    },
    getHolds: async ({ accountId }) => {
      found(accounts, accountId);
      return { openHolds: 2n, heldNanos: held.nanos, availableNanos: (balances.get(accountId) ?? 0n) - held.nanos };
    },
  } satisfies Partial<UnaryHandlers<typeof AuthQuotaService>>;
}

function refusalCalls(refused: State["refused"]) {
  return {
    listMostRefused: async () => ({
      accounts: [...refused].flatMap(([accountId, { counts = [] }]) =>
        counts.map(({ reason = "", refusals = 0n }) => ({ accountId, reason, refusals })),
      ),
    }),
    listRefusals: async ({ accountId, keyId, since }) => {
      const { counts = [], calls = [] } = refused.get(accountId) ?? {};
      const isOf = (one: { keyId?: string }): boolean => keyId === "" || one.keyId === keyId;
      const sinceMs = since ? timestampMs(since) : 0;
      return {
        counts: counts.filter((one) => isOf(one) && timestampMs(one.minute as Timestamp) >= sinceMs),
        calls: calls.filter(isOf),
      };
    },
  } satisfies Partial<UnaryHandlers<typeof AuthQuotaService>>;
}

const maxKeys = 1_000;

function keyCalls({ accounts, keys, refused }: State) {
  return {
    ...refusalCalls(refused),
    createKey: async (request) => {
      const { accountId, name, expiresAt, limitNanos, limitPeriod, models, requestsPerMinute, addresses, tags } =
        request;
      found(accounts, accountId);
      if (keys.size >= maxKeys)
        throw new ServiceError("failed_precondition", `the account has ${maxKeys} keys already`);
      const keyId = `key_${keys.size}`;
      const key = create(KeySchema, {
        keyId,
        accountId,
        name,
        models,
        requestsPerMinute,
        addresses,
        tags,
        secretPrefix: "sk-abc",
        createdAt: timestampNow(),
      });
      key.status = KeyStatus.ACTIVE;
      if (expiresAt) key.expiresAt = expiresAt;
      if (limitNanos !== undefined) Object.assign(key, { limitNanos, limitPeriod });
      keys.set(keyId, key);
      return { key, secret: `secret-of-${keyId}` };
    },
    updateKey: async (request) => {
      const key = found(keys, request.keyId);
      key.name = request.name ?? key.name;
      key.status = request.status === KeyStatus.UNSPECIFIED ? key.status : request.status;
      if (request.expiresAt) key.expiresAt = request.expiresAt;
      if (request.clearExpiry) delete key.expiresAt;
      key.requestsPerMinute = request.requestsPerMinute ?? key.requestsPerMinute;
      if (request.clearAddresses || request.addresses.length > 0) key.addresses = request.addresses;
      if (request.clearTags || request.tags.length > 0) key.tags = request.tags;
      const { limitNanos, limitPeriod } = request;
      if (limitNanos !== undefined) Object.assign(key, { limitNanos, limitPeriod });
      if (request.clearLimit) delete key.limitNanos;
      if (request.models.length > 0 || request.clearModels) key.models = request.models;
      return { key };
    },
    deleteKey: async ({ keyId }) => {
      const key = found(keys, keyId);
      key.status = KeyStatus.DELETED;
      return { key };
    },
    listKeys: async ({ accountId, includeDeleted }) => {
      found(accounts, accountId);
      const isShown = ({ status }: Key): boolean => includeDeleted || status !== KeyStatus.DELETED;
      const own = [...keys.values()].filter((key) => key.accountId === accountId && isShown(key));
      return { keys: own.toReversed() };
    },
    getKeys: async ({ keyIds }) => ({
      keys: keyIds.map((id) => keys.get(id)).filter((key) => key !== undefined),
    }),
    findKeys: async ({ secretPrefix }) => ({
      keys: [...keys.values()].filter((key) => key.secretPrefix.startsWith(secretPrefix)).toReversed(),
    }),
  } satisfies Partial<UnaryHandlers<typeof AuthQuotaService>>;
}

function billingCalls({ balances, charged, spent, usage }: State) {
  const booked = new Map<string, string>();
  const book = (reference: string, accountId: string, amountNanos: bigint) => {
    const content = `${accountId} ${amountNanos}`;
    if ((booked.get(reference) ?? content) !== content) throw new ServiceError("already_exists", "other content");
    const afterwards = (balances.get(accountId) ?? 0n) + amountNanos;
    if (!booked.has(reference) && afterwards > maxAccountNanos) throw new ServiceError("failed_precondition", "range");
    if (!booked.has(reference)) balances.set(accountId, (balances.get(accountId) ?? 0n) + amountNanos);
    booked.set(reference, content);
    return { line: { lineId: `line of ${reference}` }, balanceNanos: balances.get(accountId) ?? 0n };
  };
  return {
    credit: async ({ paymentId, accountId, amountNanos }) => book(`payment ${paymentId}`, accountId, amountNanos),
    correct: async ({ correctionId, accountId, amountNanos }) =>
      book(`correction ${correctionId}`, accountId, amountNanos),
    getBalance: async ({ accountId }) => {
      const amounts = usage.lines.filter((line) => line.accountId === accountId).map((line) => line.amountNanos);
      const sumOf = (some: bigint[]): bigint => some.reduce((sum, amount) => sum + amount, 0n);
      return {
        balanceNanos: balances.get(accountId) ?? 0n,
        creditedNanos: sumOf(amounts.filter((amount) => amount > 0n)),
        chargedNanos: -sumOf(amounts.filter((amount) => amount < 0n)),
      };
    },
    getFunds: async ({ accountIds, keyIds }) => ({
      accounts: accountIds.map((accountId) => ({
        accountId,
        balanceNanos: balances.get(accountId) ?? 0n,
        spentNanos: spent.get(accountId) ?? 0n,
      })),
      keys: keyIds.map((keyId) => {
        const at = charged.get(keyId);
        return { keyId, spentNanos: spent.get(keyId) ?? 7_000_000n, ...(at && { chargedAt: timestampFromDate(at) }) };
      }),
    }),
  } satisfies Partial<UnaryHandlers<typeof BillingService>>;
}

/** Every handler notes what changes something, and fails when the state says so. */
async function* nothing() {}

function scripted<H extends object>(handlers: H, state: State): H {
  const wrap = ([method, handler]: [string, (request: object) => Promise<object>]) => [
    method,
    async (request: object): Promise<object> => {
      if (state.failure) throw state.failure;
      if (/^(create|update|delete|credit|correct|refund|redeem|void|retry|reconcile|set|find)/.test(method))
        state.received.push({ method, request });
      const answer = await handler(request);
      if (state.breakAfter === method) throw new ServiceError("unavailable", "the connection broke");
      return answer;
    },
  ];
  return Object.fromEntries(Object.entries(handlers).map(wrap)) as H;
}

/** Serves them on loopback ports; whether a statement is final and a voucher expired goes by the given time. */
export async function serveNeighbours(nowMs: () => number): Promise<Neighbours> {
  await using resources = new AsyncDisposableStack();
  const log = createLog("test", "silent");
  const balances = new Map<string, bigint>();
  const state: State = {
    accounts: new Map(),
    keys: new Map(),
    balances,
    held: { nanos: 1n },
    charged: new Map(),
    spent: new Map(),
    refused: new Map(),
    maintenance: { isMaintenance: false },
    received: [],
    failure: undefined,
    breakAfter: "",
    usage: createUsageNeighbour(nowMs),
    vouchers: createVoucherNeighbour(nowMs),
    operators: createOperatorNeighbour(balances),
    videos: createVideoNeighbour(),
    relays: createRelayNeighbour(),
    catalogs: createCatalogNeighbour(),
  };
  const ofQuota = { ...accountCalls(state), ...keyCalls(state), ...state.catalogs.handlers };
  const quota = scripted({ ...refusing(AuthQuotaService), ...ofQuota }, state);
  const { usage, vouchers, operators } = state;
  const ofBilling = { ...usage.handlers, ...vouchers.handlers, ...operators.handlers, ...billingCalls(state) };
  const money = scripted({ ...refusing(BillingService), ...ofBilling }, state);
  const tasks = scripted({ ...refusing(VideoTaskService), ...state.videos.handlers }, state);
  const relay = scripted({ ...refusing(RelayService), ...state.relays.handlers }, state);
  const place = { host: "127.0.0.1", port: 0, drainMs: 100 };
  const unasked = { listCloseLines: nothing, restoreDay: nothing };
  const streams = { exportLines: usage.exportLines, replay: operators.replay, ...unasked };
  const authQuota = { ...unaryHandlers(AuthQuotaService, quota, log), session: () => undefined };
  const billing = {
    ...unaryHandlers(BillingService, money, log),
    ...serverStreamHandlers(BillingService, streams, log),
  };
  const first = resources.use(await serveGrpc([[AuthQuotaService, authQuota]], place));
  const second = resources.use(await serveGrpc([[BillingService, billing]], place));
  const third = unaryHandlers(VideoTaskService, tasks, log);
  const fourth = unaryHandlers(RelayService, relay, log);
  const videoTask = resources.use(await serveGrpc([[VideoTaskService, third]], place));
  const relays = resources.use(await serveGrpc([[RelayService, fourth]], place));
  const owned = resources.move();
  return Object.assign(state, {
    authQuotaAddress: `127.0.0.1:${first.port}`,
    billingAddress: `127.0.0.1:${second.port}`,
    videoTaskAddress: `127.0.0.1:${videoTask.port}`,
    relayAddress: `127.0.0.1:${relays.port}`,
    addAccount: (accountId: string, name = `Name of ${accountId}`) =>
      void state.accounts.set(accountId, create(AccountSchema, { accountId, name, status: AccountStatus.ACTIVE })),
    addKey: (accountId: string, name: string) => {
      const keyId = `key_${state.keys.size}`;
      const made = { keyId, accountId, name, secretPrefix: "sk-abc", status: KeyStatus.ACTIVE };
      state.keys.set(keyId, create(KeySchema, made));
      return keyId;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  });
}
