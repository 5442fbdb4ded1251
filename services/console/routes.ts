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
    memberRoutes,
    profileRoutes,
    secondFactorRoutes,
    operatorAccountRoutes,
    operatorBookingRoutes,
    peopleRoutes,
    auditRoutes,
  ].flatMap((routesOf) => routesOf(parts));
}
