import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import type { BillingService } from "#proto/billing/v1/billing_pb.ts";
import type { VideoTaskService } from "#proto/video/v1/video_pb.ts";
import type { Clock } from "#shared/process/clock.ts";
import type { StreamingClient } from "#shared/grpc/stream.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import type { FetchRules } from "#shared/net/guarded-agent.ts";
import type { Logger } from "#shared/process/log.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import type { Mailer } from "./mailer.ts";
import type { TxtRecords } from "./txt-records.ts";
import type { Metrics } from "./metrics.ts";
import type { Oidc } from "./credentials/oidc.ts";
import type { Passwords } from "./credentials/passwords.ts";
import type { PaymentProvider } from "./payments/provider.ts";
import type { Relays } from "./relays.ts";
import type { SecretBox } from "./credentials/secrets.ts";

export type Deps = {
  pool: Pool;
  authQuota: UnaryClient<typeof AuthQuotaService>;
  billing: UnaryClient<typeof BillingService>;
  /** The same with a longer timeout, for calls that may take a minute. */
  patientBilling: UnaryClient<typeof BillingService>;
  billingStreams: StreamingClient<typeof BillingService>;
  videoTask: Pick<UnaryClient<typeof VideoTaskService>, "listTasks" | "getTask">;
  relays: Relays;
  passwords: Passwords;
  box: SecretBox;
  /** Undefined: sign-in by password only. */
  oidc: Oidc | undefined;
  /** Whether accounts may take people in by a domain of theirs. */
  domainSignIn: boolean;
  /** What DNS says. */
  txtRecords: TxtRecords;
  clock: Clock;
  /** The payment provider; undefined: top-ups by voucher only. */
  payments: PaymentProvider | undefined;
  /** Undefined: nobody is told anything by mail. */
  mailer: Mailer | undefined;
  /** Where webhooks may be. */
  webhookRules: FetchRules;
  /** Who must have a second factor to use their role. */
  secondFactorRequiredOf: "nobody" | "operators";
  /** The account that the first operator owns from the start; undefined outside a local stack. */
  bootstrapAccountId: string | undefined;
  /** Public URL of the console. */
  publicUrl: URL;
  /** Public URL of the API, without a path. */
  apiUrl: URL;
  metrics: Metrics;
  log: Logger;
};
