import { once } from "node:events";
import { attacks } from "./attacks.ts";

// A process of its own, so that neither making nor sending a large body holds up whoever measures:
// `attacker.ts NAME URL SECRET SECRET_WITHOUT_MONEY SECONDS`. It says that it is ready, waits for a line, attacks for
// so long, and tells what was answered.
const [name, relayUrl = "", secret = "", poorSecret = "", seconds = "0"] = process.argv.slice(2);
const attack = attacks.find((one) => one.name === name);
if (!attack) throw new Error(`no attack ${name}`);
const strike = attack.prepare();
process.stdout.write("ready\n");
await once(process.stdin, "data");
const endsAt = performance.now() + Number(seconds) * 1_000;
const told = new Set<string>();
let strikes = 0;
do {
  told.add(await strike({ relayUrl, secret, poorSecret }));
  strikes += 1;
} while (performance.now() < endsAt);
process.stdout.write(`${strikes} × ${[...told].join("; ")}\n`);
process.exit(0);
