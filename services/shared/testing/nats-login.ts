import { connect, type ConnectionOptions, type NatsConnection } from "@nats-io/transport-node";

/** Connects to NATS (addresses with commas between them) as the user in the first one, if there is one. */
export function connectNats(urls: string, options: ConnectionOptions = {}): Promise<NatsConnection> {
  const addresses = urls.split(",").map((url) => new URL(url));
  const servers = addresses.map(({ host }) => host);
  const { username = "", password = "" } = addresses[0] ?? {};
  if (username === "") return connect({ servers, ...options });
  // An inbox of its own name is one of its rights.
  const login = { user: username, pass: decodeURIComponent(password), inboxPrefix: `_INBOX_${username}` };
  return connect({ servers, ...login, ...options });
}
