import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** ClickHouse's engine within a process of Python, with its data in a folder. */
export function startClickHouse(python: string, folder: string) {
  const child = spawn(python, ["-B", join(import.meta.dirname, "clickhouse.py"), folder], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  /** Runs a statement; gives its rows as text, or throws what ClickHouse says. */
  const query = async (sql: string): Promise<string> => {
    child.stdin.write(`${JSON.stringify(sql)}\n`);
    const { value, done } = await lines.next();
    if (done) throw new Error("ClickHouse has ended");
    const { data = "", error } = JSON.parse(value) as { data?: string; error?: string };
    if (error !== undefined) throw new Error(error);
    return data.trimEnd();
  };
  return {
    query,
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode !== null || !child.kill("SIGKILL")) return;
      await once(child, "exit");
    },
  };
}
