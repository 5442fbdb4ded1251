import type { Result, SessionRequest } from "#proto/authquota/v1/authquota_pb.ts";
import { connectGrpc } from "#shared/grpc/grpc.ts";
import { until } from "#shared/testing/until.ts";
import { defaultLimits, openQuotaSession, type QuotaSession, type SessionLimits } from "../charge/quota-session.ts";
import { listeningLog } from "./fakes.ts";
import { echoOf } from "./quota-server.ts";

// One heartbeat for each stream, and none after it.
const patient: SessionLimits = { ...defaultLimits, askTimeoutMs: 60_000, heartbeatMs: 60_000 };

/** A session with a server on this machine, and operations for it. */
export function openSession(port: number, limits: Partial<SessionLimits> = {}): QuotaSession {
  const channel = connectGrpc(`127.0.0.1:${port}`);
  const session = openQuotaSession(channel, "session-1", listeningLog().log, { ...patient, ...limits });
  return {
    ...session,
    [Symbol.asyncDispose]: async () => {
      await session[Symbol.asyncDispose]();
      channel[Symbol.dispose]();
    },
  };
}

export const lookup = (rid: string) => ({ operation: { case: "lookup" as const, value: { rid } } });
export const settle = (rid: string) => ({
  operation: {
    case: "settle" as const,
    value: { rid, accountId: "acct_1", keyId: "key_1", costNanos: 7n, record: Buffer.from([1, 2, 3]) },
  },
});
export const connected = (session: QuotaSession) => until("the session is connected", () => session.isConnected());
export const numbered = (count: number): string[] => Array.from({ length: count }, (_, index) => `rid-${index}`);
export const ridsOf = (batches: SessionRequest[]): string[][] =>
  batches.map(({ operations }) => operations.map((operation) => echoOf(operation).accountId ?? ""));
export const accountsOf = (results: Result[]): string[] => results.map(({ accountId }) => accountId);
