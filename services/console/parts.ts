import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import type { BillingService } from "#proto/billing/v1/billing_pb.ts";
import type { Clock } from "#shared/clock.ts";
import type { UnaryClient } from "#shared/grpc.ts";
import type { Logger } from "#shared/log.ts";
import type { Pool } from "#shared/postgres.ts";
import type { Metrics } from "./metrics.ts";
import type { Passwords } from "./passwords.ts";
import type { SecretBox } from "./secrets.ts";

/** What the pages work with. */
export type Parts = {
  pool: Pool;
  authQuota: Pick<
    UnaryClient<typeof AuthQuotaService>,
    | "getHolds"
    | "createAccount"
    | "updateAccount"
    | "listAccounts"
    | "createKey"
    | "updateKey"
    | "deleteKey"
    | "listKeys"
  >;
  billing: Pick<UnaryClient<typeof BillingService>, "getBalance" | "getFunds" | "credit" | "correct">;
  passwords: Passwords;
  box: SecretBox;
  clock: Clock;
  /** Where people open the console. */
  publicUrl: URL;
  metrics: Metrics;
  log: Logger;
};
