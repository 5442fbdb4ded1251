import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { officialClients } from "#shared/testing/python.ts";
import { fromEnvironment, inPlace, keyVariable } from "../../../services/console/html/snippets/place.ts";
import { snippets } from "../../../services/console/html/snippets/snippets.ts";
import { repository } from "../../tools/checks/run.ts";
import { buildGo, installGo, installNpm, installPython, linkPackages, type Installed } from "./install.ts";

/** Where a client finds the relay, and a folder of its own with the files that agents read. */
export type Setting = {
  baseUrl: string;
  apiKey: string;
  model: string;
  folder: string;
  /** Whether its recipe is as the README shows it, and not as the console does. */
  isByReadme: boolean;
};

/** How a client is started for one model; `programs` is a folder in which a shell finds it. */
export type Started = { command: string; args: string[]; environment: Record<string, string>; programs?: string };

/** A client that nobody has patched. */
export type Client = {
  name: string;
  /** Which code of the quick start it runs, as it is shown. */
  recipe: string;
  /** What prints how its checks went, beside the recipe. Agents have none: their recipe gets a task. */
  checks?: (installed: string, setting: Setting) => Promise<Started>;
  /** Whether it must have called over a WebSocket, and not have fallen back. */
  needsSocket?: boolean;
  install: () => Promise<Installed>;
  runRecipe: (installed: string, setting: Setting) => Promise<Started>;
};

const here = import.meta.dirname;

const variablesOf = ({ baseUrl, apiKey, model }: Setting): Record<string, string> => ({
  BASE_URL: baseUrl,
  API_KEY: apiKey,
  [keyVariable]: apiKey,
  MODEL: model,
});

/** A recipe of the quick start, as its reader has it before him. */
function textOf(recipe: string, { baseUrl, model, isByReadme }: Setting): string {
  const snippet = snippets.find(({ id }) => id === recipe);
  if (!snippet) throw new Error(`the quick start has no recipe ${recipe}`);
  return snippet.text(isByReadme ? fromEnvironment : inPlace(baseUrl), model);
}

/** Saves a recipe as the quick start says. */
async function saveRecipe(recipe: string, setting: Setting, ending: string): Promise<string> {
  const file = join(setting.folder, `ask.${ending}`);
  await writeFile(file, textOf(recipe, setting));
  return file;
}

function inPython(name: string, file: string, recipe: string, ...requirements: string[]): Client {
  const start = (python: string, script: string, setting: Setting): Started => ({
    command: python,
    args: [script],
    environment: { ...variablesOf(setting), PYTHONDONTWRITEBYTECODE: "1" },
  });
  return {
    name,
    recipe,
    install: () => installPython(...requirements),
    checks: async (python, setting) => start(python, join(here, "python", file), setting),
    runRecipe: async (python, setting) => start(python, await saveRecipe(recipe, setting, "py"), setting),
  };
}

/** Runs on the packages of the repository, whose versions the lock file pins. */
function inNode(name: string, file: string, recipe: string): Client {
  const start = (node: string, script: string, setting: Setting): Started => ({
    command: node,
    args: [script],
    environment: variablesOf(setting),
  });
  return {
    name,
    recipe,
    install: async () => ({ path: join(repository, "node_modules/.bin/node") }),
    checks: async (node, setting) => start(node, join(here, "node", file), setting),
    runRecipe: async (node, setting) => {
      await linkPackages(setting.folder);
      return start(node, await saveRecipe(recipe, setting, "mjs"), setting);
    },
  };
}

function inGo(name: string, sdk: string, recipe: string): Client {
  const source = join(here, "go");
  return {
    name,
    recipe,
    install: () => installGo(source),
    checks: async (program, setting) => ({ command: program, args: [sdk], environment: variablesOf(setting) }),
    runRecipe: async (_, setting) => {
      const program = await buildGo(source, await saveRecipe(recipe, setting, "go"));
      return { command: program, args: [], environment: variablesOf(setting) };
    },
  };
}

const task = "[two tools] Read first.txt and then second.txt with your shell, and tell me both words.";

/** An agent of npm, its program and what this is told after the last line of the recipe. */
type Agent = { name: string; recipe: string; requirement: string; command: readonly [string, ...string[]] };

/** A shell runs the recipe of an agent, whose last line starts it, here with a task. */
function agent({ name, recipe, requirement, command: [program, ...args] }: Agent): Client {
  return {
    name: `${name} ${requirement.slice(requirement.lastIndexOf("@") + 1)}`,
    recipe,
    install: () => installNpm(requirement, program),
    runRecipe: async (path, setting) => ({
      command: "sh",
      args: ["-c", `${textOf(recipe, setting).trimEnd()} "$@"`, "sh", ...args],
      environment: { ...variablesOf(setting), CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" },
      programs: dirname(path),
    }),
  };
}

const codex = {
  requirement: "@openai/codex@0.171.0",
  command: ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", task],
} as const;

const pydanticAi = "pydantic-ai-slim[openai,anthropic]==2.68.0";

/** The clients, in the order in which they run. */
export const clients: readonly Client[] = [
  inPython("openai for Python 3.57.0", "openai_sdk.py", "openai-python", ...officialClients),
  inPython("anthropic for Python 2.14.0", "anthropic_sdk.py", "anthropic-python", ...officialClients),
  inGo("openai for Go 3.99.0", "openai", "openai-go"),
  inGo("anthropic for Go 1.84.0", "anthropic", "anthropic-go"),
  inNode("openai for Node 7.59.0", "openai.ts", "openai"),
  inNode("anthropic for Node 1.14.0", "anthropic.ts", "anthropic"),
  inNode("Vercel AI SDK 7.0.173", "ai-sdk.ts", "ai-sdk"),
  inPython(
    "LangChain 1.7.4",
    "langchain_client.py",
    "langchain-python",
    "langchain-openai==1.7.4",
    "langchain-anthropic==1.7.10",
  ),
  inPython("LlamaIndex 0.8.1", "llamaindex_client.py", "llamaindex", "llama-index-llms-openai-like==0.8.1"),
  inPython("pydantic-ai 2.68.0", "pydantic_client.py", "pydantic-ai", pydanticAi),
  inPython("instructor 1.17.0", "instructor_client.py", "instructor", "instructor==1.17.0"),
  inPython("openai-agents 0.24.0", "agents_client.py", "openai-agents", "openai-agents==0.24.0"),
  inPython("litellm 1.110.2", "litellm_client.py", "litellm", "litellm==1.110.2"),
  agent({ name: "Codex", recipe: "codex", ...codex }),
  { ...agent({ name: "Codex over a WebSocket", recipe: "codex-socket", ...codex }), needsSocket: true },
  agent({
    name: "Claude Code",
    recipe: "claude-code",
    requirement: "@anthropic-ai/claude-code@2.1.332",
    command: ["claude", "-p", task, "--allowedTools", "Bash,Read"],
  }),
  agent({
    name: "opencode",
    recipe: "opencode",
    requirement: "opencode-ai@1.18.33",
    command: ["opencode", "run", task],
  }),
  agent({
    name: "Qwen Code",
    recipe: "qwen-code",
    requirement: "@qwen-code/qwen-code@0.24.4",
    command: ["qwen", "-p", task, "--yolo"],
  }),
];
