import { parseArgs } from "node:util";
import { measureMoney } from "../money.ts";
import { measureHolds } from "./measure-holds.ts";

// Holds alone: node_modules/.bin/node deploy/bench/auth-quota/main.ts [--rounds 3]
const { values: options } = parseArgs({ options: { rounds: { type: "string", default: "3" } } });
const say = (text: string): void => void process.stdout.write(`${text}\n`);
await measureMoney([measureHolds], { rounds: Number(options.rounds), say });
