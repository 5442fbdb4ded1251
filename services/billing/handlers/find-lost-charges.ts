import type { MessageInitShape } from "@bufbuild/protobuf";
import type { FindLostChargesRequest, FindLostChargesResponseSchema } from "#proto/billing/v1/billing_pb.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { dayMs, type Clock } from "#shared/process/clock.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { oldestDays } from "../records/check.ts";
import { readFinalRids } from "../store/lines.ts";
import { keptDays, readBookedEvents } from "../store/session-progress.ts";
import { requireUuidTimeMs } from "./check-request.ts";

const mostRelays = 100;
const mostRids = 1_000;
// Older calls are booked no more, so that what is asked about them changes nothing; of the last day only a part is.
const openDays = oldestDays - 1;

type Deps = { pool: Pool; clock: Clock };

/**
 * What the ledger lacks of charges that it had booked: relay processes with fewer events than they were told to be
 * booked, and which of these calls have no final charge. Events that are on their way may hide lost ones, but not for
 * long. `invalid_argument` for more than 100 processes or 1,000 calls.
 */
export async function findLostCharges(
  { pool, clock }: Deps,
  { relays, rids }: FindLostChargesRequest,
): Promise<MessageInitShape<typeof FindLostChargesResponseSchema>> {
  if (relays.length > mostRelays) throw new ServiceError("invalid_argument", `relays may have at most ${mostRelays}`);
  if (rids.length > mostRids) throw new ServiceError("invalid_argument", `rids may have at most ${mostRids}`);
  const nowMs = clock.nowMs();
  const sessions = relays.map(({ relaySession }) => relaySession);
  const events = await readBookedEvents(pool, sessions);
  // The ledger forgets processes of which it has booked nothing for so long.
  const isForgotten = (relaySession: string): boolean =>
    !events.has(relaySession) && (ridTimeMs(relaySession) ?? 0) < nowMs - keptDays * dayMs;
  const lost = relays
    .filter(({ relaySession, booked }) => booked > (events.get(relaySession) ?? 0n) && !isForgotten(relaySession))
    .map(({ relaySession, booked }) => ({ relaySession, charges: booked - (events.get(relaySession) ?? 0n) }));
  const open = rids.filter((rid) => requireUuidTimeMs("rids", rid) > nowMs - openDays * dayMs);
  const booked = await readFinalRids(pool, open);
  return { lost, unbookedRids: open.filter((rid) => !booked.has(rid)) };
}
