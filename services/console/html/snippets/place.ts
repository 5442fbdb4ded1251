/** Name of the environment variable that holds the secret of a key. */
export const keyVariable = "RELAY_API_KEY";

/** What JSON quotes, JavaScript, Python, Go and TOML read alike. */
export const quoted = (text: string): string => JSON.stringify(text);

/** One word for sh, whatever it holds. */
export const shellWord = (text: string): string =>
  /^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

type Path = "" | "/v1";

/** Where code finds the API, as expressions of each language. */
export type Place = {
  keyVariable: string;
  sh: (path: string) => string;
  js: (path: Path) => string;
  python: (path: Path) => string;
  go: (path: Path) => string;
  /** A string of a file that a shell writes from what stands up to the mark. */
  written: (path: Path) => string;
  mark: string;
};

/** Code with the address in it; no shell looks into the files that it writes. */
export function inPlace(baseUrl: string): Place {
  const text = (path: Path): string => quoted(baseUrl + path);
  const sh = (path: string): string => shellWord(baseUrl + path);
  return { keyVariable, sh, js: text, python: text, go: text, written: text, mark: "'END'" };
}

/** Code that takes the address and the key from the variables that `npm start` names. */
export const fromEnvironment: Place = {
  keyVariable: "API_KEY",
  sh: (path) => `"$BASE_URL${path}"`,
  js: (path) => (path === "" ? "process.env.BASE_URL" : `\`\${process.env.BASE_URL}${path}\``),
  python: (path) => `os.environ["BASE_URL"]${path === "" ? "" : ` + ${quoted(path)}`}`,
  go: (path) => `os.Getenv("BASE_URL")${path === "" ? "" : `+${quoted(path)}`}`,
  written: (path) => `"$BASE_URL${path}"`,
  mark: "END",
};
