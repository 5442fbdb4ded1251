import { connect, type NatsConnection } from "@nats-io/transport-node";

/** Connects to NATS as the user in the address, of whose rights an inbox of its own name is one. */
export function connectNats(url: string): Promise<NatsConnection> {
  const { host, username, password } = new URL(url);
  if (username === "") return connect({ servers: host });
  const login = { user: username, pass: decodeURIComponent(password), inboxPrefix: `_INBOX_${username}` };
  return connect({ servers: host, ...login });
}
