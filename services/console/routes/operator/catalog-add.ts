import { hash } from "node:crypto";
import { actorOf, recordAudit } from "../../audit-log.ts";
import type { Deps } from "../../deps.ts";
import { choice, input } from "../../html/controls.ts";
import { dayOf } from "../../html/days.ts";
import { readText, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { installationNavigation } from "../../html/installation-navigation.ts";
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
import { draftFormats, draftModels, priceFields, readAdditions } from "./catalog-draft.ts";
import { addToCatalog } from "./catalog-edit.ts";
import { previewOf, type Candidate } from "./catalog-preview.ts";

const catalogPath = "/operator/installation/catalog";
const base = `${catalogPath}/add`;
const title = "Add an upstream";
const action = "installation.manage";

/**
 * A new upstream with its models, as the catalog's file with them: applied where relays follow applied catalogs, else
 * put by the operator where files are kept.
 */
export function catalogAddRoutes(deps: Deps): Route[] {
  return [
    operatorRoute(get("/installation/catalog/add"), action, async (request) => page(title, formPage(request))),
    operatorRoute(post("/installation/catalog/add"), action, (request) => preview(deps, request)),
    operatorRoute(post("/installation/catalog/add/file"), action, (request) => download(deps, request)),
    operatorRoute({ ...post("/installation/catalog/add/apply"), isGuessable: true }, action, (request) =>
      apply(deps, request),
    ),
  ];
}

async function preview(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const candidate = await readCandidate(deps, request.form);
  if (!candidate) return again(title, formPage(request));
  return page(title, formPage(request, candidate));
}

/** The file as it was previewed; not where another one is in force by now, nor one that relays would refuse. */
async function download(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { form } = request;
  const candidate = await readCandidate(deps, form);
  if (!candidate) return again(title, formPage(request));
  const isSame = hash("sha256", candidate.text) === form.typed("previewed");
  if (!isSame || candidate.verdict.problems.length > 0) return page(title, formPage(request, candidate));
  const { text, inForce } = candidate;
  await recordAudit(deps.pool, actorOf(request), {
    action: "catalog.draft",
    target: form.typed("name"),
    before: { contentHash: inForce.contentHash },
    after: { contentHash: hash("sha256", text) },
  });
  return { kind: "file", name: "catalog.yaml", type: "application/yaml", pieces: one(text) };
}

/** The same text as it was previewed, in the place of the version that it was made from. */
async function apply(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { form } = request;
  const candidate = await readCandidate(deps, form);
  if (!candidate) return again(title, formPage(request));
  const { text, verdict } = candidate;
  const base = form.typed("base");
  const note = readText(form, "note", { maxLength: 400, minLength: 0, what: "a note" });
  const isSame = hash("sha256", text) === form.typed("previewed") && base === String(candidate.base);
  if (!isSame || note === undefined) return again(title, formPage(request, candidate));
  const checked = { text, verdict, base: BigInt(base), note: note === "" ? `added ${form.typed("name")}` : note };
  const version = await applyChecked(deps, request, "catalog.apply", checked);
  if (version === undefined) return again(title, formPage(request, candidate));
  return redirect(`${catalogPath}/versions`, `Version ${version} is applied: relays take it within seconds.`);
}

async function* one(text: string): AsyncGenerator<string> {
  yield text;
}

/** The catalog in force with what the form says, checked by a relay; undefined with what is wrong noted in the form. */
async function readCandidate(deps: Deps, form: Form): Promise<Candidate | undefined> {
  const { relays, clock } = deps;
  const additions = readAdditions(form, dayOf(new Date(clock.nowMs())));
  if (!additions) return undefined;
  return await relays.withOne(async ({ state, client }) => {
    const { catalog: inForce } = state;
    const { text: before } = await client.getCatalogFile({});
    const edited = addToCatalog(before, additions);
    if (edited.refusal !== undefined || !inForce) return form.refuse("name", edited.refusal ?? "Try again.");
    const verdict = await client.checkCatalog({ text: edited.text });
    const base = await readBase(deps, inForce);
    return { ...edited, inForce, verdict, ...(base !== undefined && { base }) };
  });
}

function formPage(request: SignedInRequest, candidate?: Candidate): Markup {
  const { form, csrfField } = request;
  const isValid = candidate && candidate.verdict.problems.length === 0;
  const previewed = candidate && hash("sha256", candidate.text);
  const mayApply = candidate?.base !== undefined && isUsable(candidate.verdict);
  const note = { name: "note", label: "Note on this version", maxLength: 400, isOptional: true };
  return html`${installationNavigation(catalogPath)}
    <p>
      This writes the catalog in force with a new upstream and its models in it. Where relays follow a file, you put it
      where that is kept; where they follow applied catalogs, you apply it here. Nothing changes before. The way back is
      among the <a href="${catalogPath}/versions">versions</a>.
    </p>
    ${candidate && previewOf(candidate)}
    <form method="post" action="${base}" novalidate>
      ${csrfField}${previewed && html`<input type="hidden" name="previewed" value="${previewed}" />`}
      <h2>Upstream</h2>
      ${upstreamFields(form)}
      ${draftModels.map((number) => modelFields(form, number))}
      ${
        mayApply &&
        html`<input type="hidden" name="base" value="${candidate.base}" />${input(form, note)}
          ${proofField(form, request.visitor.person)}`
      }
      <p>
        <button${isValid && html` class="outline"`}>Preview</button>
        ${isValid && html`<button formaction="${base}/file">Download the file</button>`}
        ${mayApply && html`<button formaction="${base}/apply">Apply</button>`}
      </p>
    </form>`;
}

const upstreamFields = (form: Form): Markup => html`
  ${input(form, { name: "name", label: "Name of the upstream", maxLength: 100 })}
  ${choice(form, { name: "format", label: "Format that it speaks", choices: draftFormats })}
  ${input(form, {
    name: "base-url",
    label: "Address",
    hint: "Without the /v1 that every path begins with.",
    maxLength: 2_000,
  })}
  ${input(form, {
    name: "variable",
    label: "Environment variable of the relays that holds the credential",
    hint: "Its name alone: the credential itself belongs neither here nor into the file.",
    maxLength: 200,
  })}
  ${input(form, { name: "owned-by", label: "Who makes the models", maxLength: 100 })}
`;

function modelFields(form: Form, number: number): Markup {
  const name = `model-${number}`;
  const isOptional = number > 1;
  const fields = html`${input(form, { name, label: `Name of model ${number}`, maxLength: 200, isOptional })}
  ${input(form, {
    name: `there-${number}`,
    label: `Its name at the upstream, model ${number}`,
    hint: "Where it is another one.",
    maxLength: 200,
    isOptional: true,
  })}
  ${tokenField(form, `context-${number}`, `Most tokens that model ${number} reads`)}
  ${tokenField(form, `max-output-${number}`, `Most tokens that model ${number} writes`)}
  ${moneyFields(form, number, "", "Price")}${moneyFields(form, number, "cost-", "Cost at the upstream")}`;
  if (!isOptional)
    return html`<h2>Model ${number}</h2>
      ${fields}`;
  return html`<details${form.typed(name) !== "" && html` open`}>
    <summary>Model ${number}</summary>
    ${fields}
  </details>`;
}

const tokenField = (form: Form, name: string, label: string): Markup =>
  input(form, { name, label, inputmode: "numeric", maxLength: 8, isOptional: true });

const moneyFields = (form: Form, number: number, prefix: string, what: string): Markup[] =>
  priceFields.map(([field, , words]) =>
    input(form, {
      name: `${prefix}${field}-${number}`,
      label: `${what} of ${words.toLowerCase()}, USD per million, model ${number}`,
      inputmode: "decimal",
      maxLength: 20,
      isOptional: prefix !== "" || field !== "input" || number > 1,
    }),
  );
