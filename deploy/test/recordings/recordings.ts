import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { parse } from "yaml";

/** One recorded exchange with a provider. */
export type Exchange = {
  /** File and number, for the name of a test. */
  name: string;
  /** Path of the request's address. */
  path: string;
  requestBody: string;
  status: number;
  contentType: string;
  replyBody: string;
};

type Cassette = {
  interactions?: {
    request: { url: string; body?: string };
    response: { code: number; body?: string; headers?: Record<string, string[]> };
  }[];
};

const isCassette = (name: string): boolean => /\.ya?ml$/.test(name);

/** Where recordings are looked for; undefined when there are none. They are no part of this project. */
export function findRecordings(environment: NodeJS.ProcessEnv): string | undefined {
  const beside = join(import.meta.dirname, "../../../../shared/recordings");
  const folder = environment["RECORDINGS_DIR"] ?? beside;
  return existsSync(folder) ? folder : undefined;
}

/** Reads every exchange of every cassette (go-vcr, YAML) below a folder. */
export function readExchanges(folder: string): Exchange[] {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter(isCassette).toSorted();
  return files.flatMap((file) => {
    const { interactions = [] } = parse(readFileSync(join(folder, file), "utf8")) as Cassette;
    return interactions.map(({ request, response }, index) => ({
      name: `${relative(folder, join(folder, file))} #${index}`,
      path: new URL(request.url).pathname,
      requestBody: request.body ?? "",
      status: response.code,
      contentType: response.headers?.["Content-Type"]?.[0] ?? "",
      replyBody: response.body ?? "",
    }));
  });
}
