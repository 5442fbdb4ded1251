import type { DescService } from "@bufbuild/protobuf";
import { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { RelayService } from "#proto/relay/v1/relay_pb.ts";
import { VideoTaskService } from "#proto/video/v1/video_pb.ts";
import { debugCallers } from "#shared/grpc/callers.ts";
import { identities, type Identity } from "#shared/grpc/identity.ts";
import { callers as ofAuthQuota } from "../../../services/auth-quota/callers.ts";
import { callers as ofBilling } from "../../../services/billing/callers.ts";
import { callers as ofRelay } from "../../../services/relay/callers.ts";
import { callers as ofVideoTask } from "../../../services/video-task/callers.ts";

/** A service with who may call each of its methods. */
export type ServiceCallers = { name: Identity; service: DescService; callers: Record<string, readonly Identity[]> };

export const callersOfServices: readonly ServiceCallers[] = [
  { name: "auth-quota", service: AuthQuotaService, callers: ofAuthQuota },
  { name: "billing", service: BillingService, callers: ofBilling },
  { name: "video-task", service: VideoTaskService, callers: ofVideoTask },
  { name: "relay", service: RelayService, callers: ofRelay },
];

/** The tables as one of Markdown, methods with the same callers in a row. */
export function callersTable(): string {
  const rows = callersOfServices.flatMap(({ name, callers }) => {
    const byWho = new Map<string, string[]>();
    for (const [method, who] of Object.entries(callers)) {
      const key = identities.filter((identity) => who.includes(identity)).join(", ");
      byWho.set(key, [...(byWho.get(key) ?? []), `\`${method}\``]);
    }
    return [...byWho].map(([who, methods]) => `| ${name} | ${who} | ${methods.join(", ")} |`);
  });
  const debug = Object.entries(debugCallers).map(
    ([method, who]) => `| each of them, with \`DEBUG_CALLS=on\` | ${who.join(", ")} | \`${method}\` |`,
  );
  return ["| service | who may call | methods |", "|---|---|---|", ...rows, ...debug].join("\n");
}
