import { ServiceError } from "#shared/process/errors.ts";

/** What people are told when a page cannot be shown: one row per cause, in plain sentences, nothing of our insides. */
export const problems = {
  "not-found": {
    status: 404,
    title: "Page not found",
    text: "This page does not exist, or you have no access to it. Check the address, or go to the start page.",
  },
  "not-allowed": {
    status: 403,
    title: "Not allowed",
    text:
      "Your role does not allow this. Ask an owner of the account, or an operator, to do it or to " +
      "change your role.",
  },
  "stale-form": {
    status: 403,
    title: "This form is out of date",
    text: "Nothing was changed. Go back, reload the page and send the form again.",
  },
  "needs-https": {
    status: 403,
    title: "HTTPS required",
    text: "This console works over HTTPS only. Check that the address begins with https://.",
  },
  "bad-request": {
    status: 400,
    title: "Invalid request",
    text: "Nothing was changed. Go back, reload the page and try again.",
  },
  refused: {
    status: 409,
    title: "This could not be done",
    text:
      "Nothing was changed: the data has changed since the page was loaded. Go back, reload the page " +
      "and try again.",
  },
  "too-large": {
    status: 413,
    title: "This form is too large",
    text: "Nothing was changed. Go back and send less text.",
  },
  "too-many": {
    status: 429,
    title: "Too many attempts",
    text: "There were too many attempts from your network address. Wait a minute, then try again.",
  },
  unavailable: {
    status: 503,
    title: "Not available right now",
    text:
      "A part of the system does not answer. Try again in a minute. If you were changing something, first check " +
      "whether it was done. If the problem persists, tell your operator.",
  },
  internal: {
    status: 500,
    title: "Something went wrong",
    text: "The error was logged. Check whether your change was made, then try again or " + "tell your operator.",
  },
} as const;

export type ProblemName = keyof typeof problems;

/** Thrown to answer with a page of the table above. */
export class Problem extends Error {
  readonly problem: ProblemName;

  constructor(problem: ProblemName, cause?: unknown) {
    super(problems[problem].title, { cause });
    this.name = "Problem";
    this.problem = problem;
  }
}

const byCode: Record<ServiceError["code"], ProblemName> = {
  invalid_argument: "bad-request",
  permission_denied: "internal",
  not_found: "not-found",
  already_exists: "refused",
  failed_precondition: "refused",
  unavailable: "unavailable",
  internal: "internal",
};

const byStatus: Record<number, ProblemName> = {
  400: "bad-request",
  404: "not-found",
  413: "too-large",
  415: "bad-request",
  429: "too-many",
};

/** The page for anything thrown. */
export function problemOf(thrown: unknown): ProblemName {
  if (thrown instanceof Problem) return thrown.problem;
  if (thrown instanceof ServiceError) return byCode[thrown.code];
  if (!(thrown instanceof Error)) return "internal";
  const code = "code" in thrown ? String(thrown.code) : "";
  if (code.startsWith("FST_CSRF_")) return "stale-form";
  const status = "statusCode" in thrown ? Number(thrown.statusCode) : 500;
  return byStatus[status] ?? (status >= 400 && status < 500 ? "bad-request" : "internal");
}
