import { stopSignal } from "#shared/lifecycle.ts";
import { createLog } from "#shared/log.ts";
import { startApp } from "./app.ts";
import { readConfig } from "./config.ts";

const config = readConfig(process.env);
const log = createLog("console", config.LOG_LEVEL);

await using app = await startApp(config, log);
log.info({ httpPort: app.httpPort, opsPort: app.opsPort }, "console is ready");
await stopSignal();
log.info("console is stopping");
