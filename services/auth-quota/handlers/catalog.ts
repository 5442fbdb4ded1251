import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";
import { keepCatalog, readNewestCatalog } from "../store/catalog.ts";
import type { Database } from "../store/postgres.ts";
import { toTimestamp } from "./validate.ts";

type CatalogHandlers = Pick<UnaryHandlers<typeof AuthQuotaService>, "keepCatalog" | "getKeptCatalog">;

// A catalog of 500 models takes a quarter of it.
const maxCharacters = 1_048_576;
const proofBytes = 32;

/** Keeps the catalogs that relays have taken, for relays that start with one that cannot be used. */
export function catalogHandlers(database: Database): CatalogHandlers {
  return {
    keepCatalog: async ({ content, proof, takenBy }) => {
      if (content === "" || content.length > maxCharacters)
        throw new ServiceError("invalid_argument", `content must have 1 to ${maxCharacters} characters`);
      if (takenBy.length > 100) throw new ServiceError("invalid_argument", "taken_by has more than 100 characters");
      if (proof.length !== proofBytes)
        throw new ServiceError("invalid_argument", `proof must have ${proofBytes} bytes`);
      await keepCatalog(database, { content, proof, takenBy });
      return {};
    },
    getKeptCatalog: async () => {
      const row = await readNewestCatalog(database);
      if (!row) throw new ServiceError("not_found", "no relay has taken a catalog yet");
      const { version, hash, content, proof, takenBy, takenAt } = row;
      return { version, hash, content, proof: new Uint8Array(proof), takenBy, takenAt: toTimestamp(takenAt) };
    },
  };
}
