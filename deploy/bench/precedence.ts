import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { setPriority } from "node:os";

/** Niceness: what goes first gets nearly all of a core that all three want, what goes last has what they leave. */
export const precedence = { first: -20, asUsual: 0, last: 19 } as const;

export type Precedence = keyof typeof precedence;

/**
 * Says which processes go first on the core that they share, with all their threads. False when one is gone or this
 * user may not: only root may put one in front, or back to where it was.
 */
export function setPrecedence(pids: readonly number[], wanted: Precedence): boolean {
  return pids.map((pid) => setNiceness(pid, precedence[wanted])).every(Boolean);
}

// Where Linux groups processes by session, their niceness counts among those of one session only, and that of the
// session among all. Whatever the bench starts has a session of its own.
function setNiceness(pid: number, niceness: number): boolean {
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`)) setPriority(Number(thread), niceness);
    const session = `/proc/${pid}/autogroup`;
    if (existsSync(session)) writeFileSync(session, String(niceness));
    return true;
  } catch {
    return false;
  }
}
