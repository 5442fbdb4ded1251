import { connectivityState, type Client } from "@grpc/grpc-js";

const maxWaitMs = 1_000;
const recentMs = 2_000;

/**
 * Follows a channel; the function waits, at most a second and not beyond a call's deadline, while no replica is
 * connected but one was a moment ago: when one stops right after another has come, the new one may not have been found
 * yet. It gives undefined where there is nothing to wait for: the channel is connected, or has been cut off for so long
 * that callers shall hear it at once.
 */
export function followConnection(client: Client): (deadline: number) => Promise<void> | undefined {
  const channel = client.getChannel();
  let lostAt = performance.now();
  const watch = (): void => {
    const state = channel.getConnectivityState(false);
    if (state === connectivityState.SHUTDOWN) return;
    channel.watchConnectivityState(state, Infinity, () => {
      if (state === connectivityState.READY) lostAt = performance.now();
      watch();
    });
  };
  watch();
  return (deadline) => {
    const isConnected = channel.getConnectivityState(true) === connectivityState.READY;
    if (isConnected || performance.now() - lostAt > recentMs) return undefined;
    return new Promise((resolve) => client.waitForReady(Math.min(deadline, Date.now() + maxWaitMs), () => resolve()));
  };
}
