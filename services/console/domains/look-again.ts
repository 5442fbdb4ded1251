import { inTransaction } from "#shared/stores/postgres.ts";
import { domainLapsed } from "../alerts/events.ts";
import { tellAccount } from "../alerts/tell-account.ts";
import { recordAudit } from "../audit-log.ts";
import type { Deps } from "../deps.ts";
import { lapseDomain, markFound, takeDueDomains, type Domain } from "../store/domains.ts";
import { lookForRecord } from "./claim.ts";

type LookDeps = Pick<Deps, "pool" | "clock" | "mailer" | "txtRecords" | "log">;

const maxDomains = 20;
// Nobody did it: the line is the console's own.
const reporter = { personId: null, email: "daily look at DNS", address: "" };

/**
 * Looks each day whether the records of domains in force are still there, hourly from when one was not found. After
 * three days its rule ends, also when DNS did not answer: a domain that nobody serves any more may be anybody's next.
 */
export async function lookAtDomains(deps: LookDeps): Promise<void> {
  for (const domain of await takeDueDomains(deps.pool, maxDomains)) {
    const found = await lookForRecord(deps, domain);
    if (found === "found") await markFound(deps.pool, domain);
    else if (found !== "busy") await lapse(deps, domain);
  }
}

async function lapse({ pool, clock, mailer, log }: LookDeps, { accountId, domain, role }: Domain): Promise<void> {
  await inTransaction(pool, async (db) => {
    if (!(await lapseDomain(db, { accountId, domain }))) return;
    const before = { role };
    await recordAudit(db, reporter, { action: "domain.lapse", accountId, target: domain, before });
    const event = domainLapsed({ accountId, at: new Date(clock.nowMs()) }, domain);
    await tellAccount(db, event, { isMailed: mailer !== undefined });
    log.warn({ accountId, domain }, "domain not found in DNS for days, its rule has ended");
  });
}
