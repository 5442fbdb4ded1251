import { isDeepStrictEqual } from "node:util";
import ipaddr from "ipaddr.js";
import { parseDocument } from "yaml";
import type { CatalogProblem } from "./document.ts";
import type { UpstreamSource } from "./upstream-schema.ts";

// Whoever can apply a catalog says where providers' keys are sent, and needs no more than a session in the console.
// The file comes with the deployment, so it says what cannot be moved: a secret that it names goes where it says and
// nowhere else, files are those that it names, and what configures a service itself is no secret of a provider.

type Sources = Record<string, UpstreamSource>;
type Named = Pick<UpstreamSource, "base_url" | "proxy" | "tls" | "credential" | "headers">;

/** Says what an applied catalog may not have. */
export type Restrict = (upstreams: Sources) => CatalogProblem[];

/** What is restricted, in plain values, which alone pass between threads. */
export type Restriction = {
  /** The text of the service's catalog file. */
  fileText: string;
  /** Names of the variables that configure the service itself. */
  ownVariables: readonly string[];
};

/** Where a secret is sent, and whose certificate is believed on the way. A gateway's path says whose account it is. */
const targetOf = ({ base_url: url, proxy, tls }: Named) => [URL.parse(url)?.href, proxy, { ...tls }];

function secretsOf({ credential, headers, proxy }: Named): string[] {
  const texts = [credential, ...Object.values(headers ?? {}), proxy];
  return texts.flatMap((text) => {
    if (typeof text !== "object") return [];
    return "env" in text ? `variable ${text.env}` : `file ${text.file}`;
  });
}

function filesOf(upstream: Named): string[] {
  const { ca_file: ca, cert_file: cert, key_file: key } = upstream.tls ?? {};
  const tls = [ca, cert, key].flatMap((file) => (file === undefined ? [] : `file ${file}`));
  return [...secretsOf(upstream).filter((secret) => secret.startsWith("file ")), ...tls];
}

/** The upstreams of a file as they are written; throws where that is no YAML. */
function upstreamsOf(fileText: string): Named[] {
  const document = parseDocument(fileText, { schema: "failsafe" });
  const [error] = document.errors;
  if (error) throw new Error(`the catalog file, which says where secrets may go, cannot be read: ${error.message}`);
  const source = document.toJS() as { upstreams?: Record<string, Named> } | null;
  const found = Object.values(source?.upstreams ?? {});
  return found.filter((upstream) => typeof upstream === "object" && typeof upstream?.base_url === "string");
}

/** Names that Node, OpenTelemetry and TLS libraries take their settings from. */
const ofLibraries = /^(NODE|OTEL|SSL)_/;

/** Makes the restrictions on applied catalogs of a service. */
export function createRestrict({ fileText, ownVariables }: Restriction): Restrict {
  const ofFile = upstreamsOf(fileText);
  const files = new Set(ofFile.flatMap(filesOf));
  const own = new Set(ownVariables.map((name) => `variable ${name}`));
  const origins = new Set(ofFile.map(({ base_url: url }) => URL.parse(url)?.origin));
  const problemOf = (upstream: UpstreamSource): string | undefined => {
    const target = targetOf(upstream);
    const foreignFile = filesOf(upstream).find((file) => !files.has(file));
    if (foreignFile !== undefined) return `${foreignFile} is not named in the catalog file of this service`;
    for (const secret of secretsOf(upstream)) {
      if (own.has(secret) || ofLibraries.test(secret.slice("variable ".length)))
        return `${secret} configures this service itself`;
      const places = ofFile.filter((one) => secretsOf(one).includes(secret)).map(targetOf);
      if (places.length > 0 && !places.some((place) => isDeepStrictEqual(place, target)))
        return `${secret} goes elsewhere than in the catalog file: base_url, proxy and tls must be as there`;
    }
    if (isLinkLocal(upstream.base_url) && !origins.has(URL.parse(upstream.base_url)?.origin))
      return "this address is a link-local one, such as a metadata service has";
    return undefined;
  };
  return (upstreams) =>
    Object.entries(upstreams).flatMap(([name, upstream]) => {
      const reason = problemOf(upstream);
      return reason === undefined ? [] : [{ path: ["upstreams", name], reason }];
    });
}

const metadataAddress = "fd00:ec2::254";

function isLinkLocal(url: string): boolean {
  const host = URL.parse(url)?.hostname.replace(/^\[(.*)\]$|\.$/, "$1") ?? "";
  if (!ipaddr.isValid(host)) return host === "metadata.google.internal";
  const address = ipaddr.process(host);
  return address.range() === "linkLocal" || address.toString() === metadataAddress;
}
