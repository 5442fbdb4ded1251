import type { TestUpstreamResponse } from "#proto/relay/v1/relay_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { actorOf, auditAround } from "../../audit-log.ts";
import type { Deps } from "../../deps.ts";
import { badge, figure, form } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";
import { installationNavigation } from "../../html/installation-navigation.ts";
import { Problem } from "../../html/problem.ts";
import {
  operatorRoute,
  page,
  post,
  get,
  type PageResponse,
  type Route,
  type SignedInRequest,
} from "../../html/route.ts";
import { bucketNames, bucketsInUse, count } from "../../html/units.ts";

const catalogPath = "/operator/installation/catalog";
const base = `${catalogPath}/test`;
const title = "Test an upstream";
const action = "installation.manage";
const maxName = 256;

/** The way to the test of a model at one of its upstreams. */
export const upstreamTestPath = (upstream: string, model: string): string =>
  `${base}?${new URLSearchParams({ upstream, model }).toString()}`;

/** One real call to an upstream. */
export function upstreamTestRoutes(deps: Deps): Route[] {
  return [
    operatorRoute(get("/installation/catalog/test"), action, async (request) => page(title, question(request))),
    operatorRoute(post("/installation/catalog/test"), action, (request) => testNow(deps, request)),
  ];
}

type Names = { upstream: string; model: string };

function namesOf({ query }: SignedInRequest): Names {
  const [upstream, model] = [query("upstream"), query("model")];
  const isName = (name: string): boolean => name !== "" && name.length <= maxName;
  if (!isName(upstream) || !isName(model)) throw new Problem("not-found");
  return { upstream, model };
}

function question(request: SignedInRequest): Markup {
  const { upstream, model } = namesOf(request);
  return html`${installationNavigation(catalogPath)}
    <p>
      One relay calls <strong>${model}</strong> at <strong>${upstream}</strong> once, for at most 16 tokens. The
      provider charges you for it; no account of yours is charged.
    </p>
    ${form(request, { action: upstreamTestPath(upstream, model), button: "Make one real call" })}
    <p><a href="${catalogPath}">Back to the catalog</a></p>`;
}

async function testNow(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const names = namesOf(request);
  const { upstream, model } = names;
  const target = `${model} at ${upstream}`;
  try {
    const result = await auditAround(deps, actorOf(request), { action: "upstream.test", target }, async () => {
      const told = await deps.relays.withOne(({ client }) => client.testUpstream(names));
      return { result: told, after: { status: told.status, problem: told.problem } };
    });
    return page(title, html`${resultOf(names, result)}${question(request)}`);
  } catch (error) {
    if (!(error instanceof ServiceError) || !["not_found", "failed_precondition"].includes(error.code)) throw error;
    return page(
      title,
      html`<p class="problems">Not tested: ${error.message}.</p>
        ${question(request)}`,
    );
  }
}

function resultOf({ upstream, model }: Names, result: TestUpstreamResponse): Markup {
  const { status, durationMs, problem, modelServed, usage, dialect } = result;
  const used = bucketsInUse([usage]).map(
    (bucket) => `${count(usage?.[bucket] ?? 0n)} ${bucketNames[bucket].toLowerCase()}`,
  );
  return html`<section class="card">
    <h2>${model} at ${upstream} ${problem === "" ? badge("works", "success") : badge("failed", "danger")}</h2>
    ${problem !== "" && html`<p>${problem}</p>`}
    <dl class="figures">
      ${figure("Status", status === 0 ? "no answer" : String(status))} ${figure("Duration", `${count(durationMs)} ms`)}
      ${figure("Format", dialect)} ${modelServed !== "" && figure("Model that ran", modelServed)}
      ${used.length > 0 && figure("Used", used.join(", "))}
    </dl>
  </section>`;
}
