import { mkdir, writeFile } from "node:fs/promises";
import { cpus, loadavg } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { measureHolds } from "./auth-quota/measure-holds.ts";
import { measureBooking } from "./billing/measure-booking.ts";
import { measureBooks } from "./books/measure-books.ts";
import { checkBaseline, writeBaseline } from "./check.ts";
import { httpSections, measureHttp, type HttpSection } from "./http.ts";
import { measureMoney } from "./money.ts";
import { tellProfiles } from "./profiles.ts";
import { measureShards } from "./scale/measure-shards.ts";
import { measureScale } from "./scale/measure-scale.ts";
import { measureTranslations, renderTranslations } from "./translation.ts";
import { measurePages } from "./pages/measure-pages.ts";
import { measureSockets } from "./sockets/measure-sockets.ts";
import { measureEnds } from "./videos/measure-ends.ts";
import { measurePolls } from "./videos/measure-polls.ts";
import type { WorldPlan } from "./world.ts";

// What `npm run bench` and `npm run bench:check` run; see README.md for what it measures and how to read it.
const { values: options } = parseArgs({
  options: {
    rounds: { type: "string" },
    only: { type: "string" },
    lines: { type: "string", default: "5000000" },
    quick: { type: "boolean", default: false },
    peer: { type: "string" },
    "without-relay": { type: "boolean", default: false },
    "write-baseline": { type: "boolean", default: false },
    profile: { type: "boolean", default: false },
    check: { type: "boolean", default: false },
    output: { type: "string", default: join(import.meta.dirname, "../../.local/bench.json") },
  },
});
const { only, quick, peer, check, profile, "without-relay": isWithoutRelay, "write-baseline": isBaseline } = options;
const parts = [
  "money",
  "videos",
  "http",
  "translation",
  "scale",
  "shards",
  "books",
  "pages",
  "sockets",
  ...httpSections,
];
if (only !== undefined && !parts.includes(only)) throw new Error(`--only takes ${parts.join(", ")}`);
if (peer !== undefined && peer !== "portkey") throw new Error("--peer takes portkey");
if (profile && (check || isBaseline)) throw new Error("--profile slows what it looks at: nothing is compared with it");
const guardRounds = check || isBaseline ? 5 : 3;
const rounds = Number(options.rounds ?? (quick ? 1 : guardRounds));
if (!Number.isInteger(rounds) || rounds < 1) throw new Error("--rounds takes a number from 1");
const fileStamp = new Date().toISOString().replaceAll(":", "-");
const say = (text: string): void => void process.stdout.write(`${text}\n`);
const plan: WorldPlan = {
  rounds,
  pace: quick ? 0.5 : 1,
  hasProxies: true,
  hasRelay: !isWithoutRelay,
  hasPortkey: peer !== undefined,
  profiles: profile ? join(import.meta.dirname, "../../.local/profiles", fileStamp) : undefined,
  say,
};

// Without the relay nothing needs a store; scale, books, pages and sockets have to be asked for.
const needsStores = ["money", "videos"];
const isWanted = (part: string): boolean => (only ?? part) === part && !(needsStores.includes(part) && isWithoutRelay);

// Its bars are of shards, of replicas of billing, and of large books.
const isScale = only === "scale";
const booksSize = { lines: Number(options.lines), days: 365, accounts: 10_000 };

async function measureAll() {
  const load = loadavg();
  const works = [
    ...(isWanted("money") ? [measureHolds] : []),
    ...(isWanted("money") || isScale ? [measureBooking] : []),
  ];
  const money = works.length > 0 ? await measureMoney(works, { rounds, say }) : undefined;
  const videos = isWanted("videos") ? await measureMoney([measurePolls, measureEnds], { rounds, say }) : undefined;
  const sections = httpSections.filter((section: HttpSection) => isWanted("http") || only === section);
  const http = sections.length > 0 ? await measureHttp(plan, sections) : undefined;
  const translations = isWanted("translation") ? measureTranslations() : undefined;
  if (translations) say(`\n${renderTranslations(translations)}`);
  const shards = isScale || only === "shards" ? await measureShards(rounds, say) : undefined;
  const scale = isScale ? await measureScale(plan) : undefined;
  const sockets = only === "sockets" ? await measureSockets(rounds, say) : undefined;
  const books = isScale || only === "books" ? await measureBooks(booksSize, say) : undefined;
  const pages = only === "pages" ? await measurePages(booksSize, say) : undefined;
  const machine = { cpu: cpus()[0]?.model, cores: cpus().length, node: process.version, load };
  const asked = { shards, scale, books, pages, sockets };
  return { at: new Date().toISOString(), machine, rounds, money, videos, ...http, translations, ...asked };
}

const startedAt = performance.now();
if (isBaseline) await writeBaseline(plan);
else {
  const outcome = check ? await checkBaseline(plan) : await measureAll();
  await mkdir(dirname(options.output), { recursive: true });
  await writeFile(options.output, `${JSON.stringify(outcome, null, 2)}\n`);
  say(`\nwritten to ${options.output} after ${Math.round((performance.now() - startedAt) / 1_000)} s`);
}
if (plan.profiles !== undefined) say(`\n${await tellProfiles(plan.profiles)}`);
