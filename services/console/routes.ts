import type { Deps } from "./deps.ts";
import type { Route } from "./html/route.ts";
import { activityRoutes } from "./routes/account/activity.ts";
import { alertRoutes } from "./routes/account/alerts.ts";
import { auditRoutes } from "./routes/operator/audit.ts";
import { invitationRoutes } from "./routes/account/invitations.ts";
import { keyRoutes } from "./routes/account/keys.ts";
import { memberRoutes } from "./routes/account/members.ts";
import { operatorAccountRoutes } from "./routes/operator/operator-accounts.ts";
import { operatorBookingRoutes } from "./routes/operator/operator-booking.ts";
import { overviewRoutes } from "./routes/account/overview.ts";
import { peopleRoutes } from "./routes/operator/people.ts";
import { profileRoutes } from "./routes/person/profile.ts";
import { secondFactorRoutes } from "./routes/person/second-factor.ts";
import { accountAuditRoutes } from "./routes/account/account-audit.ts";
import { autoTopUpRoutes } from "./routes/account/auto-top-up.ts";
import { businessRoutes } from "./routes/operator/business.ts";
import { catalogAddRoutes } from "./routes/operator/catalog-add.ts";
import { catalogVersionRoutes } from "./routes/operator/catalog-versions.ts";
import { upstreamTestRoutes } from "./routes/operator/upstream-test.ts";
import { budgetRoutes } from "./routes/account/budget.ts";
import { callRoutes } from "./routes/account/calls.ts";
import { domainRoutes } from "./routes/account/domains.ts";
import { firstPasswordRoutes } from "./routes/person/first-password.ts";
import { issuerRoutes } from "./routes/person/from-issuer.ts";
import { identityRoutes } from "./routes/person/identities.ts";
import { installationRoutes } from "./routes/operator/installation.ts";
import { ledgerDocumentRoutes } from "./routes/account/ledger-documents.ts";
import { ledgerRoutes } from "./routes/account/ledger.ts";
import { maintenanceRoutes } from "./routes/operator/maintenance.ts";
import { modelRoutes } from "./routes/account/models.ts";
import { passwordResetRoutes } from "./routes/person/password-reset.ts";
import { playgroundRoutes } from "./routes/account/playground.ts";
import { quarantineRoutes } from "./routes/operator/quarantine.ts";
import { quickStartRoutes } from "./routes/account/quick-start.ts";
import { refusalRoutes } from "./routes/account/refusals.ts";
import { reportRoutes } from "./routes/operator/reports.ts";
import { searchRoutes } from "./routes/operator/search.ts";
import { topUpRoutes } from "./routes/account/top-ups.ts";
import { usageRoutes } from "./routes/account/usage.ts";
import { videoRoutes } from "./routes/account/videos.ts";
import { voucherRoutes } from "./routes/operator/vouchers.ts";
import { suspiciousRoutes } from "./routes/operator/suspicious.ts";
import { setupRoutes } from "./routes/person/setup.ts";
import { signInRoutes } from "./routes/person/sign-in.ts";

/** Every page of the console with who may come. */
export function allRoutes(deps: Deps): Route[] {
  return [
    setupRoutes,
    signInRoutes,
    issuerRoutes,
    invitationRoutes,
    overviewRoutes,
    keyRoutes,
    activityRoutes,
    refusalRoutes,
    usageRoutes,
    callRoutes,
    ledgerRoutes,
    ledgerDocumentRoutes,
    videoRoutes,
    modelRoutes,
    autoTopUpRoutes,
    topUpRoutes,
    budgetRoutes,
    alertRoutes,
    playgroundRoutes,
    quickStartRoutes,
    domainRoutes,
    memberRoutes,
    accountAuditRoutes,
    profileRoutes,
    secondFactorRoutes,
    firstPasswordRoutes,
    identityRoutes,
    passwordResetRoutes,
    businessRoutes,
    suspiciousRoutes,
    operatorAccountRoutes,
    operatorBookingRoutes,
    searchRoutes,
    voucherRoutes,
    installationRoutes,
    catalogAddRoutes,
    catalogVersionRoutes,
    upstreamTestRoutes,
    reportRoutes,
    quarantineRoutes,
    maintenanceRoutes,
    peopleRoutes,
    auditRoutes,
  ].flatMap((routesOf) => routesOf(deps));
}
