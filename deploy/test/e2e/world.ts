import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  AuthQuotaService,
  type CreateKeyRequestSchema,
  type GetHoldsResponse,
} from "#proto/authquota/v1/authquota_pb.ts";
import { BillingService, type LedgerLine } from "#proto/billing/v1/billing_pb.ts";
import type { UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import { VideoTaskService } from "#proto/video/v1/video_pb.ts";
import { connectGrpc, unaryClient, type UnaryClient } from "#shared/grpc/grpc.ts";
import type { Identity } from "#shared/grpc/identity.ts";
import { type FakeOptions, type FakeUpstream, startFakeUpstream } from "#fake-provider/upstream.ts";
import { type FakeVideos, type FakeVideosOptions, startFakeVideos } from "#fake-provider/videos.ts";
import { dataFolder } from "#shared/testing/data-folder.ts";
import { until } from "#shared/testing/until.ts";
import { removeAtEnd } from "#shared/testing/watchdog.ts";
import { type ServiceName, type Stack, type StackOptions, startStack } from "../../tools/local/stack.ts";
import { testCatalog } from "./catalog.ts";

/** An account with money and a key of it. */
export type Customer = { accountId: string; keyId: string; secret: string };

export type CustomerOptions = {
  /** Nano-USD; left out: 10 USD. */
  creditNanos?: bigint;
  /** Calls per minute; left out: the service's default. */
  requestsPerMinute?: number;
  key?: Omit<MessageInitShape<typeof CreateKeyRequestSchema>, "accountId" | "$typeName">;
};

export type WorldOptions = {
  /** Makes the catalog's text from the addresses of the fakes; left out: `testCatalog`. */
  catalog?: (fakeUrl: string, videosUrl: string) => string;
  fake?: FakeOptions;
  videos?: FakeVideosOptions;
  serviceEnvironment?: Partial<Record<ServiceName, Record<string, string>>>;
  /** See StackOptions. */
  reroute?: StackOptions["reroute"];
  given?: StackOptions["given"];
  credentials?: StackOptions["credentials"];
  /** Variables of the console, which runs only when they are given. */
  console?: Record<string, string>;
};

/** What has become of an account's money, in nano-USD. */
export type Money = {
  balanceNanos: bigint;
  availableNanos: bigint;
  openHolds: bigint;
  unpostedCalls: bigint;
};

/** The whole system with its fake upstreams in this process. Disposal ends every process and deletes the data. */
export type World = AsyncDisposable & {
  stack: Stack;
  fake: FakeUpstream;
  /** The fake upstream that makes videos. */
  videos: FakeVideos;
  relayUrl: string;
  authQuota: UnaryClient<typeof AuthQuotaService>;
  billing: UnaryClient<typeof BillingService>;
  videoTask: UnaryClient<typeof VideoTaskService>;
  /** Makes an account with money and a key. */
  createCustomer: (options?: CustomerOptions) => Promise<Customer>;
  /** Makes one more key; for the same account. */
  createKey: (accountId: string, key?: CustomerOptions["key"]) => Promise<Customer>;
  holdsOf: (accountId: string) => Promise<GetHoldsResponse>;
  moneyOf: (accountId: string) => Promise<Money>;
  /** Lines of calls, oldest first; credits and corrections are not among them. */
  ledgerOf: (accountId: string) => Promise<LedgerLine[]>;
  /** Waits until a call has a ledger line and nothing of its account is held or unconfirmed; gives that line. */
  untilBooked: (accountId: string, rid: string) => Promise<BookedLine>;
  /** Waits until an account has `lines` lines of calls and nothing is held or unconfirmed. */
  untilSettled: (accountId: string, lines: number, timeoutMs?: number) => Promise<LedgerLine[]>;
  /** The lines that a service wrote, oldest first. */
  linesOf: (source: ServiceName | "local") => string[];
};

export type BookedLine = LedgerLine & { usage: UsageRecorded };

// They guard against what never comes: a machine may stand still for seconds.
const callTimeoutMs = 30_000;
const bookedTimeoutMs = 60_000;
const defaultCreditNanos = 10_000_000_000n;
const keptLines = 5_000;

/** Starts the system on free ports and in a folder of its own. The credential of the fakes is "demo". */
export async function startWorld(options: WorldOptions = {}): Promise<World> {
  await using resources = new AsyncDisposableStack();
  const folder = await mkdtemp(join(dataFolder(), "relay-e2e-"));
  removeAtEnd(folder);
  resources.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  const fake = resources.use(await startFakeUpstream(options.fake));
  const videos = resources.use(await startFakeVideos(options.videos));
  const written = new Map<string, string[]>();
  const catalog = options.catalog?.(fake.url, videos.url) ?? testCatalog(fake.url);
  const stack = resources.use(
    await startStack({
      folder,
      environment: { ...ofThisMachine(process.env), DRAIN_MS: "5000", ...options.console },
      hasConsole: options.console !== undefined,
      catalog,
      isDurable: false,
      serviceEnvironment: testVariables(options.serviceEnvironment, catalog.includes(videos.url)),
      ...(options.reroute && { reroute: options.reroute }),
      ...(options.given && { given: options.given }),
      credentials: options.credentials,
      onLine: (source, line) => keep(written, source, line),
    }),
  );
  const { authQuotaAddress, billingAddress, videoTaskAddress, relayUrl } = stack.addresses;
  const connect = (address: string, peer: Identity) => resources.use(connectGrpc(address, stack.credentials, peer));
  const authQuota = unaryClient(AuthQuotaService, connect(authQuotaAddress, "auth-quota"), callTimeoutMs);
  const billing = unaryClient(BillingService, connect(billingAddress, "billing"), callTimeoutMs);
  const videoTask = unaryClient(VideoTaskService, connect(videoTaskAddress, "video-task"), callTimeoutMs);
  const services = { authQuota, billing };
  const owned = resources.move();
  return {
    stack,
    fake,
    videos,
    relayUrl,
    ...services,
    videoTask,
    ...customers(services),
    ...questions(services),
    linesOf: (source) => written.get(source) ?? [],
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** What services take from the tests' own environment: nothing that would configure them. */
const ofThisMachine = ({ PATH, HOME }: NodeJS.ProcessEnv): NodeJS.ProcessEnv => ({ PATH, HOME });

function testVariables(
  environment: WorldOptions["serviceEnvironment"],
  hasVideos: boolean,
): NonNullable<WorldOptions["serviceEnvironment"]> {
  return {
    ...environment,
    // All callers of a test share one address, and some make many calls at once.
    "auth-quota": {
      IP_REQUESTS_PER_MINUTE: "1000000",
      ACCOUNT_REQUESTS_PER_MINUTE: "100000",
      ...environment?.["auth-quota"],
    },
    // What takes seconds between two polls of a provider shall be seen in a fraction of one. Where no video can be
    // made, such polls would cost a tenth of a core for nothing.
    "video-task": {
      ...(hasVideos && { POLL_INTERVAL_MS: "150", CONFIRM_MS: "200" }),
      ...environment?.["video-task"],
    },
  };
}

function keep(written: Map<string, string[]>, source: string, line: string): void {
  const lines = written.get(source) ?? [];
  written.set(source, lines);
  lines.push(line);
  if (lines.length > keptLines) lines.shift();
}

type Services = Pick<World, "authQuota" | "billing">;

let payments = 0;

function customers({ authQuota, billing }: Services): Pick<World, "createCustomer" | "createKey"> {
  const createKey: World["createKey"] = async (accountId, key = {}) => {
    const { key: made, secret } = await authQuota.createKey({ name: "e2e", ...key, accountId });
    if (!made) throw new Error("a key was made without its record");
    return { accountId, keyId: made.keyId, secret };
  };
  return {
    createKey,
    createCustomer: async ({ creditNanos = defaultCreditNanos, requestsPerMinute = 0, key = {} } = {}) => {
      const { account } = await authQuota.createAccount({ name: "e2e", requestsPerMinute });
      if (!account) throw new Error("an account was made without its record");
      const { accountId } = account;
      payments += 1;
      if (creditNanos > 0n) {
        await billing.credit({ accountId, amountNanos: creditNanos, paymentId: `e2e-${process.pid}-${payments}` });
      }
      return createKey(accountId, key);
    },
  };
}

const isOfCall = ({ rid }: LedgerLine): boolean => rid !== "";

function questions({ authQuota, billing }: Services) {
  const holdsOf = (accountId: string): Promise<GetHoldsResponse> => authQuota.getHolds({ accountId });
  const ledgerOf = async (accountId: string): Promise<LedgerLine[]> => {
    const found: LedgerLine[] = [];
    for (let beforeLineId = ""; ;) {
      const { lines } = await billing.listLedgerLines({ accountId, beforeLineId, limit: 1_000 });
      found.push(...lines);
      const last = lines.at(-1);
      if (!last || lines.length < 1_000) return found.filter(isOfCall).toReversed();
      beforeLineId = last.lineId;
    }
  };
  const isAtRest = async (accountId: string): Promise<boolean> => {
    const { openHolds, unpostedCalls } = await holdsOf(accountId);
    return openHolds === 0n && unpostedCalls === 0n;
  };
  const untilSettled = (accountId: string, wanted: number, timeoutMs = bookedTimeoutMs): Promise<LedgerLine[]> =>
    until(
      `${wanted} ledger lines of ${accountId}, nothing held and nothing unconfirmed`,
      async () => {
        const lines = await ledgerOf(accountId);
        if (lines.length < wanted) throw new Error(`${lines.length} lines so far`);
        if (!(await isAtRest(accountId))) throw new Error(describeHolds(await holdsOf(accountId)));
        return lines;
      },
      timeoutMs,
    );
  return {
    holdsOf,
    ledgerOf,
    untilSettled,
    moneyOf: async (accountId: string): Promise<Money> => {
      const { balanceNanos } = await billing.getBalance({ accountId });
      const { availableNanos, openHolds, unpostedCalls } = await holdsOf(accountId);
      return { balanceNanos, availableNanos, openHolds, unpostedCalls };
    },
    untilBooked: (accountId: string, rid: string): Promise<BookedLine> =>
      until(
        `a ledger line of ${rid}, nothing held and nothing unconfirmed`,
        async () => {
          const { lines } = await billing.listLedgerLines({ accountId, rid });
          const [line] = lines;
          if (!line?.usage || !(await isAtRest(accountId))) return undefined;
          return line as BookedLine;
        },
        bookedTimeoutMs,
      ) as Promise<BookedLine>,
  };
}

function describeHolds({ openHolds, unpostedCalls }: GetHoldsResponse): string {
  return `${openHolds} open holds, ${unpostedCalls} unconfirmed charges`;
}
