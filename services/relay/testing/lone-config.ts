import { readConfig } from "../config.ts";

/** Configuration of a relay in a test that reaches no store and no other service. */
export const loneConfig = readConfig({
  AUTH_QUOTA_ADDRESS: "nowhere",
  NATS_URL: "nowhere",
  CATALOG_FILE: "none",
  SPOOL_DIR: "none",
  ALLOW_PLAIN_HTTP: "loopback",
  ALLOW_PLAIN_GRPC: "always",
});
