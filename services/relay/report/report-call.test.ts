import assert from "node:assert/strict";
import { test } from "node:test";
import { createRegistry } from "#shared/metrics/ops.ts";
import { createLog } from "#shared/process/log.ts";
import { createMetrics } from "../metrics.ts";
import { reportCall, type Report } from "./report-call.ts";

const nothing = new Proxy({}, { get: () => 0 }) as Report["times"];

function reporter(loggedShare: number) {
  const lines: string[] = [];
  const log = createLog("test", "info", { write: (line) => void lines.push(line) });
  const deps = { metrics: createMetrics(createRegistry("relay")), log, loggedShare };
  return (status: number, failure?: Report["failure"]): number => {
    const response = { headersSent: true, statusCode: status } as Report["response"];
    const about = {
      rid: "r",
      startedAtMs: Date.now(),
      times: nothing,
      endpoint: "/v1/models",
      ip: "::1",
      method: "GET",
    };
    const report: Report = { ...about, response, trace: undefined, call: undefined, failure };
    reportCall(report, { ...deps, tracing: { share: 0, hasGenAi: false } });
    return lines.length;
  };
}

test("successful calls are logged by their share, and all others always", () => {
  const all = reporter(1);
  assert.deepEqual([all(200), all(200)], [1, 2]);
  const none = reporter(0);
  const refused = { name: "body_too_large" } as Report["failure"];
  assert.deepEqual([none(200), none(499), none(413, refused), none(200)], [0, 1, 2, 2]);
});
