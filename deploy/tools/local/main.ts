import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { stopSignal } from "#shared/process/lifecycle.ts";
import { givenStores } from "./config.ts";
import { formatJson, formatText } from "./merged-log.ts";
import { startStack } from "./stack.ts";
import { welcome } from "./welcome.ts";

// What `npm start` runs. `-- --json` shows log lines as the services wrote them; `-- --folder PATH` keeps the data
// there.
const { values } = parseArgs({ options: { json: { type: "boolean" }, folder: { type: "string" } } });
const folder = resolve(values.folder ?? join(import.meta.dirname, "../../../.local"));
const format = values.json ? formatJson : formatText;
const onLine = (source: string, line: string): void => void process.stdout.write(`${format(source, line)}\n`);
// Whoever reads along may leave first, as in `npm start | tee` at Ctrl-C; the order of stopping stays.
process.stdout.on("error", () => undefined);
const say = (text: string): void => onLine("local", text);

const starting = startStack({
  folder,
  environment: process.env,
  given: givenStores(process.env),
  hasConsole: true,
  areRestarted: true,
  onLine,
});
const stopping = stopSignal();
const first = await Promise.race([starting, stopping]).catch((error: unknown) => {
  process.stderr.write(`\n${error instanceof Error ? error.message : String(error)}\n`);
  return "failed" as const;
});
// Half a stack has nothing to drain: what was started ends with this process.
if (typeof first === "string") process.exit(1);

process.stdout.write(welcome(first));
say(`${await stopping}: stopping; once more ends everything at once`);
await first[Symbol.asyncDispose]();
say(`stopped; the data is kept in ${folder}`);
