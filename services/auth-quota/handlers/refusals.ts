import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import {
  addRefusalCounts,
  forgetRefusalCounts,
  keepRefusedCalls,
  listRefusedCalls,
  sumMostRefused,
  sumRefusals,
} from "../store/refusals.ts";
import type { Database } from "../store/postgres.ts";
import { checkId, checkInstant, refuse, toTimestamp } from "./validate.ts";

type RefusalHandlers = Pick<
  UnaryHandlers<typeof AuthQuotaService>,
  "reportRefusals" | "listRefusals" | "listMostRefused"
>;

const maxCounts = 10_000;
const maxCalls = 2_000;
const maxCharacters = 200;

function checkReason(reason: string): string {
  return /^[a-z_]{1,40}$/.test(reason) ? reason : refuse("reason must be 1 to 40 small letters or _");
}

function checkStatus(status: number): number {
  return status >= 400 && status <= 599 ? status : refuse("status must be 400 to 599");
}

function checkText(field: string, text: string): string {
  const isFit = text.length <= maxCharacters && !/[\p{Cc}]/u.test(text);
  return isFit ? text : refuse(`${field} must have at most ${maxCharacters} characters, none of them a control one`);
}

function checkRid(rid: string): string {
  return ridTimeMs(rid) === undefined ? refuse("rid must be a UUIDv7") : rid;
}

/** Keeps what relays have refused, and tells it to people. */
export function refusalHandlers(database: Database): RefusalHandlers {
  return {
    reportRefusals: async ({ counts, calls }) => {
      if (counts.length > maxCounts) refuse(`counts may have at most ${maxCounts}`);
      if (calls.length > maxCalls) refuse(`calls may have at most ${maxCalls}`);
      const countRows = counts.map(({ keyId, minute, reason, status, refusals }) => ({
        keyId: checkId("key_id", keyId),
        minute: minute ? checkInstant("minute", minute) : refuse("minute must be set"),
        reason: checkReason(reason),
        status: checkStatus(status),
        refusals:
          refusals > 0n && refusals <= 1_000_000_000n ? refusals : refuse("refusals must be 1 to 1,000,000,000"),
      }));
      const callRows = calls.map(({ rid, keyId, reason, status, endpoint, model, detail }) => ({
        rid: checkRid(rid),
        keyId: checkId("key_id", keyId),
        reason: checkReason(reason),
        status: checkStatus(status),
        endpoint: checkText("endpoint", endpoint),
        model: checkText("model", model),
        detail: checkText("detail", detail),
      }));
      if (countRows.length > 0) await addRefusalCounts(database, countRows);
      if (callRows.length > 0) await keepRefusedCalls(database, callRows);
      return {};
    },
    listRefusals: async ({ accountId, keyId, since }) => {
      const filter = { accountId: checkId("account_id", accountId), keyId: keyId && checkId("key_id", keyId) };
      const counts = await sumRefusals(database, filter, since ? checkInstant("since", since) : new Date(0));
      const calls = await listRefusedCalls(database, filter);
      return { counts: counts.map((row) => ({ ...row, minute: toTimestamp(row.minute) })), calls };
    },
    listMostRefused: async ({ since }) => ({
      accounts: await sumMostRefused(database, since ? checkInstant("since", since) : new Date(0)),
    }),
  };
}

const forgottenAtOnce = 10_000;

/** Forgets what is older than a week. */
export async function forgetRefusals(database: Database): Promise<void> {
  while ((await forgetRefusalCounts(database, forgottenAtOnce)) === forgottenAtOnce);
}
