import { renderDashboard, type Dashboard } from "./dashboards.ts";
import { authQuota } from "./panels/auth-quota.ts";
import { billing } from "./panels/billing.ts";
import { consoleService } from "./panels/console.ts";
import { fleet } from "./panels/fleet.ts";
import { money } from "./panels/money.ts";
import { relay } from "./panels/relay.ts";
import { streams } from "./panels/streams.ts";
import { upstreams } from "./panels/upstreams.ts";
import { videoTask } from "./panels/video-task.ts";

const dashboards: Dashboard[] = [
  fleet,
  upstreams,
  streams,
  money,
  relay,
  authQuota,
  billing,
  videoTask,
  consoleService,
];

/** Names and texts of the files in dashboards/. */
export const dashboardFiles = (): { name: string; text: string }[] =>
  dashboards.map((dashboard) => ({
    name: `${dashboard.uid.replace("model-relay-", "")}.json`,
    text: renderDashboard(dashboard),
  }));
