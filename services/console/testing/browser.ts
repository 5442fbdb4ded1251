import { randomInt } from "node:crypto";

/** A page as it came. */
export type SeenPage = {
  status: number;
  headers: Headers;
  /** Path and query to which it was redirected; empty when it was not. */
  location: string;
  /** Without the white space that does not matter in HTML: tests do not depend on how templates are laid out. */
  text: string;
  /** What the heading says. */
  title: string;
};

export type Browser = {
  cookies: Map<string, string>;
  address: string;
  get: (path: string, headers?: Record<string, string>) => Promise<SeenPage>;
  /** Sends a form with the CSRF token of the page that was seen last. */
  post: (path: string, fields?: Fields, headers?: Record<string, string>) => Promise<SeenPage>;
  /** Opens the page with the form first, then sends it there. */
  fill: (path: string, fields: Fields) => Promise<SeenPage>;
  /** The same, and then follows the redirect. */
  submit: (path: string, fields: Fields, action?: string) => Promise<SeenPage>;
  csrf: () => string;
};

export type Fields = Record<string, string | string[]>;

/** A browser without script: keeps cookies, does not follow redirects by itself. */
export function createBrowser(port: number): Browser {
  const cookies = new Map<string, string>();
  const address = `203.0.113.${randomInt(1, 255)}`;
  let csrf = "";
  const ask = async (path: string, init: RequestInit, headers: Record<string, string>): Promise<SeenPage> => {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      ...init,
      redirect: "manual",
      headers: {
        "x-forwarded-for": address,
        "x-forwarded-proto": "https",
        "user-agent": "Test browser",
        ...(cookie !== "" && { cookie }),
        ...headers,
      },
    });
    for (const line of response.headers.getSetCookie()) keep(cookies, line);
    const text = compact(await response.text());
    csrf = /name="csrf" value="([^"]+)"/.exec(text)?.[1] ?? csrf;
    const location = response.headers.get("location") ?? "";
    const title = unescape(/<h1>([^<]*)<\/h1>/.exec(text)?.[1] ?? "");
    return { status: response.status, headers: response.headers, location, text, title };
  };
  const browser: Browser = {
    cookies,
    address,
    csrf: () => csrf,
    get: (path, headers = {}) => ask(path, {}, headers),
    post: (path, fields = {}, headers = {}) => {
      const body = new URLSearchParams();
      for (const [name, value] of Object.entries({ csrf, ...fields })) {
        for (const one of Array.isArray(value) ? value : [value]) body.append(name, one);
      }
      return ask(path, { method: "POST", body }, headers);
    },
    fill: async (path, fields) => {
      await browser.get(path);
      return browser.post(path, fields);
    },
    submit: async (path, fields, action = path) => {
      await browser.get(path);
      const seen = await browser.post(action, fields);
      return seen.location === "" ? seen : browser.get(seen.location);
    },
  };
  return browser;
}

function compact(text: string): string {
  const inTags = text.replaceAll(/<[^>]+>/g, (tag) => tag.replaceAll(/\s+/g, " ").replace(/ ?\/?>$/, ">"));
  return inTags.replaceAll(/\s+/g, " ").replaceAll(/ ?(<[^>]+>) ?/g, "$1");
}

function keep(cookies: Map<string, string>, line: string): void {
  const [pair = "", ...attributes] = line.split(";").map((part) => part.trim());
  const cut = pair.indexOf("=");
  const isGone = attributes.some((attribute) => attribute === "Max-Age=0" || attribute.includes("01 Jan 1970"));
  if (isGone) cookies.delete(pair.slice(0, cut));
  else cookies.set(pair.slice(0, cut), decodeURIComponent(pair.slice(cut + 1)));
}

/** The text that a browser would show. */
function unescape(text: string): string {
  return text.replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCodePoint(Number(code)));
}
