import { Command, CommanderError } from "commander";
import { toServiceError } from "#shared/errors.ts";
import { addAccountCommands } from "./account-commands.ts";
import { readAddresses } from "./config.ts";
import { openDesk, type Run } from "./desk.ts";
import { addKeyCommands } from "./key-commands.ts";
import { addLedgerCommands } from "./ledger-commands.ts";
import { addMoneyCommands } from "./money-commands.ts";

/** Where a command writes: what was asked for, and what is said beside it. */
export type Output = { answer: (text: string) => void; aside: (text: string) => void };

export type Surroundings = {
  environment: NodeJS.ProcessEnv;
  /** The file in which a local stack tells its addresses. */
  addressesFile: string;
  output: Output;
};

/** Runs one command; gives the exit code: 0, or 1 after one sentence that says what is wrong. Never throws. */
export async function runCommand(words: string[], surroundings: Surroundings): Promise<number> {
  const { aside } = surroundings.output;
  try {
    await buildProgram(surroundings).parseAsync(words, { from: "user" });
    return 0;
  } catch (thrown) {
    // Commander has said what is wrong by then; help that was asked for is its error of code 0.
    if (thrown instanceof CommanderError) return thrown.exitCode;
    const error = toServiceError(thrown);
    aside(`error: ${error.code === "internal" && thrown instanceof Error ? thrown.message : error.message}\n`);
    return 1;
  }
}

function buildProgram({ environment, addressesFile, output }: Surroundings): Command {
  const program = new Command("npm run admin --")
    .description("Accounts, keys, money and ledger of a relay, over the services' gRPC calls.")
    .option("--json", "answer in JSON; amounts are decimal strings of nano-USD")
    .configureOutput({ writeOut: output.answer, writeErr: output.aside })
    .exitOverride();
  const run: Run = async (work) => {
    using desk = openDesk(readAddresses(environment, addressesFile));
    const { text, data, hint } = await work(desk);
    const json = program.getOptionValue("json") === true;
    output.answer(`${json ? JSON.stringify(data, null, 2) : text}\n`);
    if (hint !== undefined && !json) output.aside(`${hint}\n`);
  };
  addAccountCommands(program, run);
  addKeyCommands(program, run);
  addMoneyCommands(program, run);
  addLedgerCommands(program, run);
  return program;
}
