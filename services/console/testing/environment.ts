/** The variables that must be set, for tests of the configuration. */
export const environment = {
  DATABASE_URL: "postgres://a",
  AUTH_QUOTA_ADDRESS: "a:1",
  BILLING_ADDRESS: "b:1",
  VIDEO_TASK_ADDRESS: "c:1",
  RELAY_ADDRESSES: "d:1",
  API_URL: "https://api.example",
  PUBLIC_URL: "https://console.example",
  SECRETS_KEY_FILE: "key",
  ALLOW_PLAIN_GRPC: "always",
};
