import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { CatalogVersion } from "#proto/authquota/v1/authquota_pb.ts";
import type { Catalog, CheckCatalogResponse } from "#proto/relay/v1/relay_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { Deps } from "../../deps.ts";
import { badge, form, input, instant, table } from "../../html/controls.ts";
import { readText } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { installationNavigation } from "../../html/installation-navigation.ts";
import { Problem } from "../../html/problem.ts";
import {
  again,
  get,
  operatorRoute,
  page,
  post,
  redirect,
  type PageResponse,
  type Route,
  type SignedInRequest,
} from "../../html/route.ts";
import { proofField } from "../../sign-in/prove-again.ts";
import { applyChecked, isUsable, readBase } from "./catalog-apply.ts";
import { textDiff } from "./catalog-diff.ts";
import { changedPrices, problemsOf } from "./catalog-preview.ts";

const catalogPath = "/operator/installation/catalog";
const base = `${catalogPath}/versions`;
const title = "Versions of the catalog";

/** Catalogs that were applied or taken from files: what they would change, and the way back to them. */
export function catalogVersionRoutes(deps: Deps): Route[] {
  return [
    operatorRoute(get("/installation/catalog/versions"), "installation.view", (request) => show(deps, request)),
    operatorRoute(get("/installation/catalog/versions/file"), "installation.view", (request) =>
      download(deps, request),
    ),
    operatorRoute({ ...post("/installation/catalog/versions"), isGuessable: true }, "installation.manage", (request) =>
      rollBack(deps, request),
    ),
  ];
}

/** Which catalog is meant: of those that were applied, or of those of files. */
type Wanted = { isApplied: boolean; version: bigint };

function wantedIn(read: (name: string) => string): Wanted | undefined {
  const [applied, kept] = [read("applied"), read("kept")];
  const text = applied === "" ? kept : applied;
  return /^\d{1,18}$/.test(text) ? { isApplied: applied !== "", version: BigInt(text) } : undefined;
}

const queryOf = ({ isApplied, version }: Wanted): string => `${isApplied ? "applied" : "kept"}=${version}`;

async function show(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const wanted = wantedIn(request.query);
  return page(title, await versionsPage(deps, request, wanted));
}

const notKept = html`<p class="problems">No such version is kept.</p>`;

async function versionsPage(deps: Deps, request: SignedInRequest, wanted: Wanted | undefined): Promise<Markup> {
  const [{ applied, kept }, compared] = await Promise.all([
    deps.authQuota.listCatalogs({}),
    wanted && compare(deps, wanted),
  ]);
  const states = await deps.relays.states();
  const inForce = states.flatMap(({ state }) => state?.catalog ?? []);
  const head = ["Version", "When", "By", "Note", "SHA-256", "Compare"];
  return html`${installationNavigation(catalogPath)}
    <p>${sourceWords(inForce)}</p>
    ${wanted && (compared ? comparison(request, wanted, compared) : notKept)}
    ${table(
      "Applied versions, newest first",
      head,
      applied.map((one) => row(one, true, inForce)),
    )}
    ${table(
      "Taken from files, newest first",
      head,
      kept.map((one) => row(one, false, inForce)),
    )}`;
}

function sourceWords(inForce: readonly Catalog[]): string {
  if (inForce.length === 0) return "No relay answers, so it is not known which catalog is in force.";
  const stored = inForce.filter(({ isStored }) => isStored).length;
  if (stored === inForce.length) return "Relays follow the version that was applied last.";
  if (stored > 0) return `${stored} of ${inForce.length} relays follow applied versions, the others a file.`;
  return "Relays follow a file (CATALOG_SOURCE=file): to go back, download the file and put it in its place.";
}

function row(one: CatalogVersion, isApplied: boolean, inForce: readonly Catalog[]): Markup {
  const { version, hash, author, via, note, at, hasContent } = one;
  const isCurrent = inForce.some(({ contentHash, isStored, appliedVersion }) =>
    isApplied ? isStored && appliedVersion === version : !isStored && contentHash === hash,
  );
  const href = `${base}?${queryOf({ isApplied, version })}`;
  return html`<tr>
    <th scope="row">${version} ${isCurrent && badge("in force", "success")}</th>
    <td>${at ? instant(timestampDate(at)) : "–"}</td>
    <td>${author}${via !== "" && via !== "console" && ` (${via})`}</td>
    <td>${note}</td>
    <td><code>${hash.slice(0, 12)}</code></td>
    <td>${hasContent ? html`<a href="${href}">Compare<span class="hidden"> version ${version}</span></a>` : "–"}</td>
  </tr>`;
}

type Compared = { text: string; before: string; inForce: Catalog; verdict: CheckCatalogResponse; from?: bigint };

/** A version beside what is in force, as a relay sees both; undefined when it is not kept. */
async function compare(deps: Deps, wanted: Wanted): Promise<Compared | undefined> {
  const text = await readContent(deps, wanted);
  if (text === undefined) return undefined;
  return await deps.relays.withOne(async ({ state, client }) => {
    const { catalog: inForce } = state;
    if (!inForce) throw new ServiceError("unavailable", "no relay process answers");
    const [{ text: before }, from] = [await client.getCatalogFile({}), await readBase(deps, inForce)];
    const verdict = await client.checkCatalog({ text });
    return { text, before, inForce, verdict, ...(from !== undefined && { from }) };
  });
}

async function readContent({ authQuota }: Deps, wanted: Wanted): Promise<string | undefined> {
  try {
    return (await authQuota.getCatalog(wanted)).content;
  } catch (error) {
    if (error instanceof ServiceError && error.code === "not_found") return undefined;
    throw error;
  }
}

function comparison(request: SignedInRequest, wanted: Wanted, compared: Compared): Markup {
  const { text, before, inForce, verdict, from } = compared;
  const isSame = text === before;
  const changes = textDiff(before, text);
  return html`<section class="card">
    <h2>Version ${wanted.version} ${wanted.isApplied ? "" : "of a file "}beside the one in force</h2>
    ${problemsOf(text, verdict)} ${verdict.catalog && changedPrices(inForce, verdict.catalog)}
    ${
      isSame
        ? html`<p id="note">It is the same text.</p>`
        : changes === undefined
          ? html`<p>Too many lines differ to show them here: download it.</p>`
          : html`<div class="scroll" tabindex="0" role="region" aria-label="Lines that differ">
              <pre><code>${changes}</code></pre>
            </div>`
    }
    <p><a href="${base}/file?${queryOf(wanted)}">Download the file</a></p>
    ${inForce.isStored && !isSame && rollBackForm(request, wanted, { verdict, from })}
  </section>`;
}

function rollBackForm(
  request: SignedInRequest,
  wanted: Wanted,
  { verdict, from }: { verdict: CheckCatalogResponse; from: bigint | undefined },
): Markup {
  if (!isUsable(verdict)) return html`<p id="note">It cannot be applied as it is.</p>`;
  if (from === undefined) return html`<p id="note">Relays are taking another version right now: reload this page.</p>`;
  const { form: sent } = request;
  const fields = html`<input type="hidden" name="base" value="${from}" /><input
      type="hidden"
      name="${wanted.isApplied ? "applied" : "kept"}"
      value="${wanted.version}"
    />${input(sent, { name: "note", label: "Note", maxLength: 400, isOptional: true })}
    ${proofField(sent, request.visitor.person)}`;
  return html`<p>
      Relays take it within seconds, for all accounts. Calls under way keep the prices that they began with.
    </p>
    ${form(request, { action: base, button: `Roll back to version ${wanted.version}`, isDanger: true }, fields)}`;
}

async function rollBack(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { form: sent } = request;
  const wanted = wantedIn(sent.typed);
  const from = sent.typed("base");
  if (!wanted || !/^\d{1,18}$/.test(from)) throw new Problem("bad-request");
  const typed = sent.typed("note") === "" ? "" : readText(sent, "note", { maxLength: 400, what: "a note" });
  const text = await readContent(deps, wanted);
  if (text === undefined || typed === undefined) throw new Problem("bad-request");
  const words = `back to version ${wanted.version}${wanted.isApplied ? "" : " of a file"}`;
  const note = typed === "" ? words : `${words}: ${typed}`;
  const verdict = await deps.relays.withOne(async ({ state, client }) => {
    if (state.catalog?.isStored !== true) throw new Problem("refused");
    return await client.checkCatalog({ text });
  });
  const version = await applyChecked(deps, request, "catalog.rollback", { text, verdict, base: BigInt(from), note });
  if (version === undefined) return again(title, await versionsPage(deps, request, wanted));
  return redirect(base, `Version ${version} is applied: relays take it within seconds.`);
}

async function download(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const wanted = wantedIn(request.query);
  const text = wanted && (await readContent(deps, wanted));
  if (text === undefined) throw new Problem("not-found");
  return { kind: "file", name: "catalog.yaml", type: "application/yaml", pieces: one(text) };
}

async function* one(text: string): AsyncGenerator<string> {
  yield text;
}
