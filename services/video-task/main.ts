import { stopOrFault } from "#shared/process/lifecycle.ts";
import { createLog } from "#shared/process/log.ts";
import { startTracing } from "#shared/process/tracing.ts";
import { startApp } from "./app.ts";
import { readConfig } from "./config.ts";

const config = readConfig(process.env);
const log = createLog("video-task", config.LOG_LEVEL);

await using _tracing = await startTracing("video-task", config.OTEL_EXPORTER_OTLP_ENDPOINT, log);
await using app = await startApp(config, log, process.env);
log.info({ port: app.grpcPort, opsPort: app.opsPort }, "video-task is ready");
await stopOrFault(log);
log.info("video-task is stopping");
