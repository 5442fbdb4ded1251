import { parseArgs } from "node:util";
import { measureMoney } from "../money.ts";
import { measureBooking } from "./measure-booking.ts";

// Booking alone: node_modules/.bin/node deploy/bench/billing/main.ts [--rounds 3]
const { values: options } = parseArgs({ options: { rounds: { type: "string", default: "3" } } });
const say = (text: string): void => void process.stdout.write(`${text}\n`);
await measureMoney([measureBooking], { rounds: Number(options.rounds), say });
