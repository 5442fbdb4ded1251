import { mkdir, writeFile } from "node:fs/promises";
import { cpus } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { measureHolds } from "./auth-quota/measure-holds.ts";
import { measureBooking } from "./billing/measure-booking.ts";
import { measureHttp } from "./http.ts";
import { measureMoney } from "./money.ts";
import { measureTranslations, renderTranslations } from "./translation.ts";
import { measureEnds } from "./videos/measure-ends.ts";
import { measureLooks } from "./videos/measure-looks.ts";

// What `npm run bench` runs; see README.md for what it measures and how to read it.
const { values: options } = parseArgs({
  options: {
    rounds: { type: "string", default: "3" },
    only: { type: "string" },
    "without-relay": { type: "boolean", default: false },
    output: { type: "string", default: join(import.meta.dirname, "../../.local/bench.json") },
  },
});
const { only, "without-relay": isWithoutRelay } = options;
const parts = ["money", "videos", "http", "translation"];
if (only !== undefined && !parts.includes(only)) throw new Error(`--only takes ${parts.join(", ")}`);
const rounds = Number(options.rounds);
if (!Number.isInteger(rounds) || rounds < 1) throw new Error("--rounds takes a number from 1");
const say = (text: string): void => void process.stdout.write(`${text}\n`);
// Without the relay nothing needs a store.
const isWanted = (part: string): boolean =>
  (only ?? part) === part && !(["money", "videos"].includes(part) && isWithoutRelay);

const money = isWanted("money") ? await measureMoney([measureHolds, measureBooking], { rounds, say }) : undefined;
const videos = isWanted("videos") ? await measureMoney([measureLooks, measureEnds], { rounds, say }) : undefined;
const http = isWanted("http") ? await measureHttp({ rounds, hasRelay: !isWithoutRelay, say }) : undefined;
const translations = isWanted("translation") ? measureTranslations() : undefined;
if (translations) say(`\n${renderTranslations(translations)}`);

await mkdir(dirname(options.output), { recursive: true });
const machine = { cpu: cpus()[0]?.model, cores: cpus().length, node: process.version };
const outcome = { at: new Date().toISOString(), machine, rounds, money, videos, ...http, translations };
await writeFile(options.output, `${JSON.stringify(outcome, null, 2)}\n`);
say(`\nwritten to ${options.output}`);
