import type { Command } from "commander";
import { type RestoreDayResponse, RestoreDayResponseSchema } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { readDay } from "./arguments.ts";
import { type Answer, asData, type Clients, type Output, type Run } from "./clients.ts";

export function addArchiveCommands(program: Command, run: Run, { aside }: Output): void {
  program
    .command("restore-day")
    .description("read an archived day back into the ledger, for a week")
    .argument("<day>", "the day (UTC)", readDay)
    .action((day: string) => run((clients) => restoreDay(clients, day, aside)));
}

async function restoreDay({ streams }: Clients, day: string, aside: Output["aside"]): Promise<Answer> {
  let last: RestoreDayResponse | undefined;
  for await (const response of streams.restoreDay({ day })) {
    last = response;
    if (!response.isDone) aside(`${response.restoredLines} of ${response.lines} lines\n`);
  }
  if (!last?.isDone) throw new ServiceError("unavailable", "it ended before its end; run it again");
  return {
    text: `${day}: ${last.lines} lines are read back, verified and in the ledger, for a week`,
    data: asData(RestoreDayResponseSchema, last),
  };
}
