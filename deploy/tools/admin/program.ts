import { Command, CommanderError } from "commander";
import { toServiceError } from "#shared/process/errors.ts";
import { addAccountCommands } from "./account-commands.ts";
import { addArchiveCommands } from "./archive-commands.ts";
import { addBackupCommands } from "./backup-commands.ts";
import { backupEnvironment, readAddresses, readCredentials, readRelayAddress } from "./config.ts";
import { addCatalogCommand } from "./catalog-command.ts";
import { addCloseCommands } from "./close-commands.ts";
import { type Answer, openClients, type Output, type Run, type RunAlone } from "./clients.ts";
import { addDebugCommand } from "./debug-command.ts";
import { addExportCommand } from "./export-command.ts";
import { addInvoiceCommands } from "./invoice-commands.ts";
import { addKeyCommands } from "./key-commands.ts";
import { addLedgerCommands } from "./ledger-commands.ts";
import { addLostCommand } from "./lost-command.ts";
import { addMoneyCommands } from "./money-commands.ts";
import { addReconcileCommands } from "./reconcile-commands.ts";
import { addReplayCommand } from "./replay-command.ts";
import { addMoveAccountCommand, addShardsCommand } from "./shards-command.ts";
import { addStatementCommand } from "./statement-command.ts";

export type Environment = {
  environment: NodeJS.ProcessEnv;
  /** The file in which a local stack tells its addresses. */
  addressesFile: string;
  output: Output;
};

/**
 * Runs one command; gives the exit code: 0; 1 after an answer that tells of something wrong, or after one sentence that
 * says why there is no answer; 2 after an answer that lacks something. Never throws.
 */
export async function runCommand(words: string[], surroundings: Environment): Promise<number> {
  const { aside } = surroundings.output;
  const ended = { code: 0 };
  try {
    await buildProgram(surroundings, ended).parseAsync(words, { from: "user" });
    return ended.code;
  } catch (thrown) {
    // Commander has said what is wrong by then; help that was asked for is its error of code 0.
    if (thrown instanceof CommanderError) return thrown.exitCode;
    const error = toServiceError(thrown);
    aside(`error: ${error.code === "internal" && thrown instanceof Error ? thrown.message : error.message}\n`);
    return 1;
  }
}

function buildProgram({ environment, addressesFile, output }: Environment, ended: { code: number }): Command {
  const program = new Command("npm run admin --")
    .description(
      "Accounts, keys, money and ledger of a relay, over the services' gRPC calls; backups, from its stores.",
    )
    .option("--json", "output JSON; amounts are decimal strings of nano-USD")
    .configureOutput({ writeOut: output.answer, writeErr: output.aside })
    .exitOverride();
  const show = ({ text, data, hint, isWrong, isUnchecked }: Answer): void => {
    const json = program.getOptionValue("json") === true;
    const answer = json && data !== undefined ? JSON.stringify(data, null, 2) : text;
    if (answer !== "") output.answer(`${answer}\n`);
    if (hint !== undefined && !json) output.aside(`${hint}\n`);
    if (isWrong) ended.code = 1;
    else if (isUnchecked) ended.code = 2;
  };
  const run: Run = async (work) => {
    const addresses = readAddresses(environment, addressesFile);
    const credentials = readCredentials(environment, addressesFile);
    using clients = openClients(addresses, credentials, readRelayAddress(environment, addressesFile));
    show(await work(clients));
  };
  const runAlone: RunAlone = async (work) => show(await work());
  addAccountCommands(program, run);
  addKeyCommands(program, run);
  addMoneyCommands(program, run);
  addLedgerCommands(program, run);
  addStatementCommand(program, run);
  addExportCommand(program, run, output);
  addReplayCommand(program, run);
  addInvoiceCommands(program, run);
  addReconcileCommands(program, run);
  addLostCommand(program, run);
  addCloseCommands(program, run, runAlone);
  addArchiveCommands(program, run, output);
  addCatalogCommand(program, run);
  addShardsCommand(program, run);
  addMoveAccountCommand(program, run);
  addDebugCommand(program, { credentials: () => readCredentials(environment, addressesFile), output, runAlone });
  addBackupCommands(program, run, {
    environment: backupEnvironment(environment, addressesFile),
    output,
    runAlone,
  });
  return program;
}
