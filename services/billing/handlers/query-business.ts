import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  BusinessGrouping,
  type BusinessSumSchema,
  type QueryBusinessRequest,
  type QueryBusinessResponseSchema,
} from "#proto/billing/v1/billing_pb.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { type BusinessGroup, type BusinessSumRow, type KnownBusiness, readBusiness } from "../store/business.ts";
import { badRequest, maxDays, requireFewDays, requireId, requireLimit } from "./check-request.ts";

const groups: Record<BusinessGrouping, BusinessGroup> = {
  [BusinessGrouping.UNSPECIFIED]: "none",
  [BusinessGrouping.DAY]: "day",
  [BusinessGrouping.MODEL]: "model",
  [BusinessGrouping.UPSTREAM]: "upstream",
  [BusinessGrouping.ACCOUNT]: "account",
};

const ofAccounts: readonly BusinessGroup[] = ["none", "day", "account"];

/** Sums of all accounts, or of one, on at most 400 days: read from sums alone, whose end is told. */
export async function queryBusiness(
  { pool, known }: { pool: Pool; known: KnownBusiness },
  { fromDay, untilDay, groupBy, accountId, limit }: QueryBusinessRequest,
): Promise<MessageInitShape<typeof QueryBusinessResponseSchema>> {
  const group = groups[groupBy];
  if (!group) throw badRequest("group_by is unknown");
  requireFewDays({ fromDay, untilDay });
  if (accountId !== "" && !ofAccounts.includes(group)) throw badRequest("group_by is not known of one account");
  const query = {
    fromDay,
    untilDay,
    groupBy: group,
    accountId: accountId === "" ? undefined : requireId("account_id", accountId),
    limit: group === "day" ? maxDays : requireLimit(limit),
  };
  const found = await readBusiness(pool, query, known);
  const { sums, groups: all, untilMs, missingDays } = found;
  return { sums: sums.map(toSum), groups: all, summedUntil: timestampFromMs(untilMs), missingDays };
}

const toSum = (row: BusinessSumRow): MessageInitShape<typeof BusinessSumSchema> => ({
  group: row.group,
  accounts: row.accounts,
  newAccounts: row.newAccounts,
  calls: row.calls,
  failedCalls: row.failed_calls,
  upstreamFailedCalls: row.upstream_failed_calls,
  goneCalls: row.gone_calls,
  freeCalls: row.free_calls,
  uncostedCalls: row.uncosted_calls,
  chargedNanos: row.charged_nanos,
  uncostedNanos: row.uncosted_nanos,
  costNanos: row.cost_nanos,
  refundedNanos: row.refunded_nanos,
  creditedNanos: row.credited_nanos,
  correctedNanos: row.corrected_nanos,
});
