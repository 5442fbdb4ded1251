import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { parse } from "yaml";
import { repository } from "../../tools/checks/run.ts";

type Reference = { $ref: string };
type Schema = { [keyword: string]: unknown };
type Media = { schema: Schema; "x-event"?: Schema };
type Header = { required?: boolean; schema: Schema };
type Response = { headers?: Record<string, Header | Reference>; content?: Record<string, Media> };
type Operation = {
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, Response | Reference>;
};

/** The part of an OpenAPI document that answers are checked by. */
export type OpenApi = {
  paths: Record<string, Record<string, Operation>>;
  components: { responses: Record<string, Response>; schemas: Record<string, Schema> };
};

/** The public API's document. */
export const document: OpenApi = parse(readFileSync(join(repository, "proto/openapi.yaml"), "utf8"));

const documentId = "openapi";
const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, allErrors: true, formats: { binary: true } });
// To Ajv the document is the schema around all others, and these are keywords of it.
ajv.addVocabulary(Object.keys(document));
ajv.addSchema(document, documentId, undefined, false);

const asPointer = (steps: string[]): string =>
  steps.map((step) => `/${step.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");

/** The value at a JSON pointer such as `#/components/headers/RequestId`; throws an Error when there is none. */
export function resolve(pointer: string): unknown {
  let value: unknown = document;
  for (const step of pointer.replace(/^#\//, "").split("/")) {
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
    const isThere = typeof value === "object" && value !== null && Object.hasOwn(value, key);
    if (!isThere) throw new Error(`${pointer} is not in the document`);
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/** The steps to a value behind its reference, and the value. */
function follow<T extends object>(steps: string[], value: T | Reference): { steps: string[]; value: T } {
  if (!("$ref" in value)) return { steps, value };
  return { steps: value.$ref.slice("#/".length).split("/"), value: resolve(value.$ref) as T };
}

const compiled = new Map<string, ValidateFunction>();

/** The check of the schema at a place of the document; throws when the schema is not valid. */
export function compileAt(steps: string[]): ValidateFunction {
  const reference = `${documentId}#${asPointer(steps)}`;
  const known = compiled.get(reference) ?? ajv.compile({ $ref: reference });
  compiled.set(reference, known);
  return known;
}

function problemsAt(steps: string[], value: unknown, what: string): string[] {
  const check = compileAt(steps);
  if (check(value)) return [];
  return (check.errors ?? []).map(({ instancePath, message }) => `${what}${instancePath} ${message}`);
}

/** An answer of the relay as far as the document speaks of it. */
export type Answer = { method: string; path: string; status: number; headers: Headers; text: string };

/** Data of server-sent events that is no JSON. */
const endMark = "[DONE]";

/** Paths of the document that hold an id; a model's may hold slashes. */
const templates = Object.keys(document.paths)
  .filter((path) => path.includes("{"))
  .map((path) => {
    const pattern = path.replace("{model_id}", ".+").replaceAll(/\{\w+\}/g, "[^/]+");
    return { path, pattern: new RegExp(`^${pattern}$`) };
  });

function operationOf(method: string, path: string): { steps: string[]; value: Operation } | undefined {
  const template = document.paths[path] ? path : (templates.find(({ pattern }) => pattern.test(path))?.path ?? path);
  const value = document.paths[template]?.[method.toLowerCase()];
  return value && { steps: ["paths", template, method.toLowerCase()], value };
}

/** What is not served is in no OpenAPI document; it is refused like what is served, in the shape of its format. */
function unknownPath(path: string): Record<string, Reference> {
  const format = /^\/v1\/messages(\/|$)/.test(path) ? "B" : "A";
  const named = { 400: "Invalid", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 503: "Unavailable" };
  return Object.fromEntries(
    Object.entries(named).map(([status, name]) => [status, { $ref: `#/components/responses/${name}${format}` }]),
  );
}

/** Tells how a JSON body that was accepted differs from what the document says of requests. */
export function requestProblems(method: string, path: string, body: string): string[] {
  const operation = operationOf(method, path);
  const media = operation?.value.requestBody?.content["application/json"];
  if (!operation || !media) return [];
  return jsonProblems([...operation.steps, "requestBody", "content", "application/json", "schema"], body, "request");
}

/** Where the document says how such an answer looks; undefined when it must not be. */
function responseOf({ method, path, status }: Answer): { steps: string[]; value: Response } | undefined {
  const operation = operationOf(method, path);
  const found = operation?.value.responses[status] ?? (operation ? undefined : unknownPath(path)[status]);
  return found && follow([...(operation?.steps ?? []), "responses", String(status)], found);
}

function headerProblems({ headers }: Answer, { steps, value }: { steps: string[]; value: Response }): string[] {
  return Object.entries(value.headers ?? {}).flatMap(([name, described]) => {
    const header = follow([...steps, "headers", name], described);
    const sent = headers.get(name);
    if (sent === null) return header.value.required ? [`header ${name} is missing`] : [];
    return problemsAt([...header.steps, "schema"], sent, `header ${name}`);
  });
}

/** The data of each event of a stream, a cut last event and the end mark left out. */
function dataOf(text: string): string[] {
  return text
    .split(/\r?\n\r?\n/)
    .slice(0, -1)
    .map((event) => {
      const lines = event.split(/\r?\n/).filter((line) => line.startsWith("data:"));
      return lines.map((line) => line.slice("data:".length).trim()).join("\n");
    })
    .filter((data) => data !== "" && data !== endMark);
}

/** How a text differs from the JSON that the schema at a place describes. */
function jsonProblems(steps: string[], text: string, what: string): string[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return [`${what} is not JSON`];
  }
  return problemsAt(steps, value, what);
}

function mediaNamed(content: Record<string, Media>, type: string): string | undefined {
  return Object.keys(content).find(
    (name) => name === type || (name.endsWith("/*") && type.startsWith(name.slice(0, -1))),
  );
}

/** Tells how an answer differs from the document; nothing when it is as described. */
export function answerProblems(answer: Answer): string[] {
  const { path, status, headers, text } = answer;
  const [type = ""] = (headers.get("content-type") ?? "").split(";");
  // The website's page, which is no part of the API.
  if (type === "text/html") return status === 404 && !/^\/v1(\/|$)/.test(path) ? [] : [`a page with status ${status}`];
  const response = responseOf(answer);
  if (!response) return [`status ${status} is not described`];
  const { content } = response.value;
  if (!content)
    return [...headerProblems(answer, response), ...(type + text === "" ? [] : ["a body is not described"])];
  const media = mediaNamed(content, type);
  if (media === undefined) return [`content type ${type} is not described`];
  const steps = [...response.steps, "content", media];
  const bodyProblems = (): string[] => {
    if (type === "application/json") return jsonProblems([...steps, "schema"], text, "body");
    if (type !== "text/event-stream") return [];
    return dataOf(text).flatMap((data, index) => jsonProblems([...steps, "x-event"], data, `event ${index + 1}`));
  };
  return [...headerProblems(answer, response), ...bodyProblems()];
}
