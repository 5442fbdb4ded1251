import { parseArgs } from "node:util";
import { measureMoney } from "../money.ts";
import { measureEnds } from "./measure-ends.ts";
import { measurePolls } from "./measure-polls.ts";

// Videos alone: node_modules/.bin/node deploy/bench/videos/main.ts [--rounds 3]
const { values: options } = parseArgs({ options: { rounds: { type: "string", default: "3" } } });
const say = (text: string): void => void process.stdout.write(`${text}\n`);
await measureMoney([measurePolls, measureEnds], { rounds: Number(options.rounds), say });
