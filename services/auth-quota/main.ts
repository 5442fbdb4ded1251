import { stopSignal } from "#shared/lifecycle.ts";
import { createLog } from "#shared/log.ts";
import { startApp } from "./app.ts";
import { readConfig } from "./config.ts";

const config = readConfig(process.env);
const log = createLog("auth-quota", config.LOG_LEVEL);

await using resources = new AsyncDisposableStack();
const app = resources.use(await startApp(config, log));

log.info({ grpcPort: app.grpcPort, opsPort: app.opsPort }, "auth-quota is ready");
log.info({ signal: await stopSignal() }, "auth-quota is stopping");
