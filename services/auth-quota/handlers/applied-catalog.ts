import type {
  ApplyCatalogRequest,
  AuthQuotaService,
  GetAppliedCatalogRequest,
} from "#proto/authquota/v1/authquota_pb.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";
import type { Identity } from "#shared/grpc/identity.ts";
import type { PriceText } from "#shared/catalog/price-texts.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { Logger } from "#shared/process/log.ts";
import {
  applyCatalog,
  listApplied,
  readApplied,
  readAppliedHead,
  readAppliedVersion,
  type AppliedRow,
} from "../store/applied-catalog.ts";
import { listKept, readKept, type CatalogRow } from "../store/catalog.ts";
import type { Database } from "../store/postgres.ts";
import { refuse, toTimestamp } from "./validate.ts";

type Handlers = Pick<
  UnaryHandlers<typeof AuthQuotaService>,
  "listCatalogs" | "getCatalog" | "applyCatalog" | "getAppliedCatalog"
>;

const maxCharacters = 1_048_576;
const maxPriceRows = 20_000;
const maxAuthor = 200;
const maxNote = 500;

/** The catalogs that operators apply, and what people see of those that relays took from files. */
export function appliedCatalogHandlers(database: Database, log: Logger): Handlers {
  return {
    listCatalogs: async ({ beforeVersion }) => {
      const [applied, kept] = await Promise.all([
        listApplied(database, checkVersion("before_version", beforeVersion)),
        listKept(database),
      ]);
      return { applied: applied.map(tellApplied), kept: kept.map(tellKept) };
    },
    getCatalog: async ({ isApplied, version }) => {
      checkVersion("version", version);
      const found = isApplied ? await findApplied(database, version) : await findKept(database, version);
      return found ?? refuseAbsent("there is no such catalog, or its text is kept no more");
    },
    applyCatalog: async (request, identities = []) => ({
      version: await apply(database, request, { identities, log }),
    }),
    getAppliedCatalog: (request) => tellNewest(database, request),
  };
}

async function apply(
  database: Database,
  request: ApplyCatalogRequest,
  { identities, log }: { identities: readonly Identity[]; log: Logger },
): Promise<bigint> {
  const { content, baseVersion, author, note } = request;
  const isText = content !== "" && content.length <= maxCharacters && !content.includes("\0");
  if (!isText) refuse(`content must have 1 to ${maxCharacters} characters, none of them NUL`);
  const base = checkVersion("base_version", baseVersion);
  checkLine("author", author, { minLength: 1, maxLength: maxAuthor });
  checkLine("note", note, { minLength: 0, maxLength: maxNote });
  const via = identities.find((identity) => identity === "console" || identity === "admin") ?? "";
  const outcome = await applyCatalog(database, { content, base, author, note, via, prices: readPrices(request) });
  if (outcome.refusal === "overtaken") {
    const words = `version ${outcome.version} is applied by now, and this was made from version ${base}`;
    throw new ServiceError("failed_precondition", words);
  }
  if (outcome.refusal === "repriced") {
    const words = `other prices than before: ${outcome.rows.join(", ")}; give new prices a new version`;
    throw new ServiceError("failed_precondition", words);
  }
  log.info({ version: outcome.version, base, author, via }, "catalog applied");
  return outcome.version;
}

function readPrices({ prices }: ApplyCatalogRequest): PriceText[] {
  if (prices.length > maxPriceRows) refuse(`prices may have at most ${maxPriceRows} rows`);
  return prices.map((row) => {
    const { model, priceVersion } = row;
    checkLine("prices.model", model, { minLength: 1, maxLength: 300 });
    checkLine("prices.price_version", priceVersion, { minLength: 1, maxLength: 600 });
    checkLine("prices.prices", row.prices, { minLength: 0, maxLength: 4_000 });
    return { model, priceVersion, prices: row.prices };
  });
}

function checkLine(field: string, text: string, { minLength, maxLength }: { minLength: number; maxLength: number }) {
  // Characters that turn the direction of text round make a line look like another one.
  const isFit = text.length >= minLength && text.length <= maxLength && !/[\p{Cc}\p{Bidi_Control}]/u.test(text);
  if (!isFit) refuse(`${field} must be ${minLength} to ${maxLength} characters, none of them a control character`);
}

const maxVersion = 2n ** 63n - 2n;

const checkVersion = (field: string, version: bigint): bigint =>
  version >= 0n && version <= maxVersion ? version : refuse(`${field} must be 0 or more`);

async function tellNewest(database: Database, request: GetAppliedCatalogRequest) {
  const { knownVersion, knownHash } = request;
  const before = checkVersion("before_version", request.beforeVersion);
  if (before === 0n && knownVersion !== 0n) {
    const head = await readAppliedHead(database);
    if (head?.version === knownVersion && head.hash === knownHash) return head;
  }
  const row = await readApplied(database, before);
  if (!row) return refuseAbsent(before === 0n ? "no catalog was applied yet" : "there is none before it");
  return { version: row.version, hash: row.hash, content: row.content ?? "" };
}

function refuseAbsent(words: string): never {
  throw new ServiceError("not_found", words);
}

async function findApplied(database: Database, version: bigint) {
  const row = await readAppliedVersion(database, version);
  if (!row || row.content === null) return undefined;
  return { version: tellApplied({ ...row, hasContent: true }), content: row.content };
}

async function findKept(database: Database, version: bigint) {
  const row = await readKept(database, version);
  return row && { version: tellKept(row), content: row.content };
}

const tellApplied = (row: Omit<AppliedRow, "content"> & { hasContent: boolean }) => {
  const { version, hash, author, via, note, appliedAt, hasContent } = row;
  return { version, hash, author, via, note, at: toTimestamp(appliedAt), hasContent };
};

const tellKept = ({
  version,
  hash,
  takenBy,
  takenAt,
}: Pick<CatalogRow, "version" | "hash" | "takenBy" | "takenAt">) => ({
  version,
  hash,
  author: takenBy,
  at: toTimestamp(takenAt),
  hasContent: true,
});
