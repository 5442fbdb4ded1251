import { stopOrFault } from "#shared/process/lifecycle.ts";
import { createLog } from "#shared/process/log.ts";
import { startTracing } from "#shared/process/tracing.ts";
import { startApp } from "./app.ts";
import { readConfig } from "./config.ts";

const config = readConfig(process.env);
const log = createLog("auth-quota", config.LOG_LEVEL);

await using resources = new AsyncDisposableStack();
resources.use(await startTracing("auth-quota", config.OTEL_EXPORTER_OTLP_ENDPOINT, log));
const app = resources.use(await startApp(config, log));

log.info({ grpcPort: app.grpcPort, opsPort: app.opsPort }, "auth-quota is ready");
const outdated = app.outdated.finally(() => (process.exitCode = 1));
log.info({ reason: await Promise.race([stopOrFault(log), outdated]) }, "auth-quota is stopping");
