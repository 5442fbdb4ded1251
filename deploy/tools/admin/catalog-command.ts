import { writeFile } from "node:fs/promises";
import type { Command } from "commander";
import { GetKeptCatalogResponseSchema } from "#proto/authquota/v1/authquota_pb.ts";
import { asData, type Run } from "./clients.ts";
import { figures, instant } from "./render.ts";

export function addCatalogCommand(program: Command, run: Run): void {
  program
    .command("catalog")
    .description("show which catalog relays took last, and write it into a file")
    .option("--output <file>", "where to write its text")
    .action(({ output }: { output?: string }) =>
      run(async ({ authQuota }) => {
        const kept = await authQuota.getKeptCatalog({});
        if (output !== undefined) await writeFile(output, kept.content);
        return {
          text: figures([
            ["version", String(kept.version)],
            ["SHA-256", kept.hash],
            ["taken by", kept.takenBy],
            ["taken at", instant(kept.takenAt)],
          ]),
          data: asData(GetKeptCatalogResponseSchema, kept),
        };
      }),
    );
}
