import type { Parts } from "./parts.ts";
import type { Route } from "./route.ts";
import { auditRoutes } from "./routes/audit.ts";
import { invitationRoutes } from "./routes/invitations.ts";
import { keyRoutes } from "./routes/keys.ts";
import { memberRoutes } from "./routes/members.ts";
import { operatorAccountRoutes } from "./routes/operator-accounts.ts";
import { operatorBookingRoutes } from "./routes/operator-booking.ts";
import { overviewRoutes } from "./routes/overview.ts";
import { peopleRoutes } from "./routes/people.ts";
import { profileRoutes } from "./routes/profile.ts";
import { secondFactorRoutes } from "./routes/second-factor.ts";
import { callRoutes } from "./routes/calls.ts";
import { identityRoutes } from "./routes/identities.ts";
import { installationRoutes } from "./routes/installation.ts";
import { ledgerRoutes } from "./routes/ledger.ts";
import { maintenanceRoutes } from "./routes/maintenance.ts";
import { modelRoutes } from "./routes/models.ts";
import { passwordResetRoutes } from "./routes/password-reset.ts";
import { playgroundRoutes } from "./routes/playground.ts";
import { quarantineRoutes } from "./routes/quarantine.ts";
import { quickStartRoutes } from "./routes/quick-start.ts";
import { reportRoutes } from "./routes/reports.ts";
import { searchRoutes } from "./routes/search.ts";
import { topUpRoutes } from "./routes/top-ups.ts";
import { usageRoutes } from "./routes/usage.ts";
import { videoRoutes } from "./routes/videos.ts";
import { voucherRoutes } from "./routes/vouchers.ts";
import { setupRoutes } from "./routes/setup.ts";
import { signInRoutes } from "./routes/sign-in.ts";

/** Every page of the console with who may come. */
export function allRoutes(parts: Parts): Route[] {
  return [
    setupRoutes,
    signInRoutes,
    invitationRoutes,
    overviewRoutes,
    keyRoutes,
    usageRoutes,
    callRoutes,
    ledgerRoutes,
    videoRoutes,
    modelRoutes,
    topUpRoutes,
    playgroundRoutes,
    quickStartRoutes,
    memberRoutes,
    profileRoutes,
    secondFactorRoutes,
    identityRoutes,
    passwordResetRoutes,
    operatorAccountRoutes,
    operatorBookingRoutes,
    searchRoutes,
    voucherRoutes,
    installationRoutes,
    reportRoutes,
    quarantineRoutes,
    maintenanceRoutes,
    peopleRoutes,
    auditRoutes,
  ].flatMap((routesOf) => routesOf(parts));
}
