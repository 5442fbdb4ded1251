import { stopOrFault } from "#shared/process/lifecycle.ts";
import { createLog } from "#shared/process/log.ts";
import { startTracing } from "#shared/process/tracing.ts";
import { startApp } from "./app.ts";
import { readConfig } from "./config.ts";

const config = readConfig(process.env);
const log = createLog("console", config.LOG_LEVEL);

await using _tracing = await startTracing("console", config.OTEL_EXPORTER_OTLP_ENDPOINT, log);
await using app = await startApp(config, log);
log.info({ httpPort: app.httpPort, opsPort: app.opsPort }, "console is ready");
await stopOrFault(log);
log.info("console is stopping");
