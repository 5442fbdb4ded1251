import { readFileSync } from "node:fs";
import { join } from "node:path";
import { repository } from "../../tools/checks/run.ts";
import { installGo, installNpm, installPython, type Installed } from "./install.ts";

/** Where a client finds the relay, and a folder of its own with the files that agents read. */
export type Setting = { baseUrl: string; apiKey: string; model: string; folder: string };

/** How a client is started for one model. */
export type Started = { command: string; args: string[]; environment: Record<string, string> };

/** A client that nobody has patched. A `program` prints how its checks went; an `agent` prints its last answer. */
export type Client = {
  name: string;
  kind: "program" | "agent";
  /** Whether it must have called over a WebSocket, and not have fallen back. */
  needsSocket?: boolean;
  install: () => Promise<Installed>;
  start: (installed: string, setting: Setting) => Promise<Started>;
};

const here = import.meta.dirname;

const variablesOf = ({ baseUrl, apiKey, model }: Setting): Record<string, string> => ({
  BASE_URL: baseUrl,
  API_KEY: apiKey,
  MODEL: model,
});

function inPython(name: string, file: string, ...requirements: string[]): Client {
  return {
    name,
    kind: "program",
    install: () => installPython(...requirements),
    start: async (python, setting) => ({
      command: python,
      args: [join(here, "python", file)],
      environment: { ...variablesOf(setting), PYTHONDONTWRITEBYTECODE: "1" },
    }),
  };
}

/** Runs on the packages of the repository, whose versions the lock file pins. */
function inNode(name: string, file: string): Client {
  return {
    name,
    kind: "program",
    install: async () => ({ path: join(repository, "node_modules/.bin/node") }),
    start: async (node, setting) => ({
      command: node,
      args: [join(here, "node", file)],
      environment: variablesOf(setting),
    }),
  };
}

function inGo(name: string, sdk: string): Client {
  return {
    name,
    kind: "program",
    install: () => installGo(join(here, "go")),
    start: async (program, setting) => ({ command: program, args: [sdk], environment: variablesOf(setting) }),
  };
}

const task = "[two tools] Read first.txt and then second.txt with your shell, and tell me both words.";

/** The set-up of an agent, as the README of the relay tells it to callers. */
function recipeOf(heading: string): string {
  const readme = readFileSync(join(repository, "services/relay/README.md"), "utf8");
  const [, section = ""] = readme.split(`### ${heading}\n`);
  const [, recipe] = /^```sh\n(.*?)^```$/ms.exec(section) ?? [];
  if (recipe === undefined) throw new Error(`the README has no recipe for ${heading}`);
  return recipe;
}

/** An agent of npm: a shell runs its recipe, and then the agent in the same environment. */
function agent(heading: string, requirement: string, program: string, ...args: string[]): Client {
  return {
    name: `${heading} ${requirement.slice(requirement.lastIndexOf("@") + 1)}`,
    kind: "agent",
    install: () => installNpm(requirement, program),
    start: async (path, setting) => ({
      command: "sh",
      args: ["-c", `${recipeOf(heading).replaceAll("demo-chat", setting.model)}exec "$0" "$@"`, path, ...args],
      environment: { ...variablesOf(setting), CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" },
    }),
  };
}

const codexFlags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];

const pydanticAi = "pydantic-ai-slim[openai,anthropic]==2.68.0";

/** The clients, in the order in which they run. */
export const clients: readonly Client[] = [
  inPython("openai for Python 3.57.0", "openai_sdk.py", "openai[realtime]==3.57.0", "anthropic==2.14.0"),
  inPython("anthropic for Python 2.14.0", "anthropic_sdk.py", "openai[realtime]==3.57.0", "anthropic==2.14.0"),
  inGo("openai for Go 3.98.0", "openai"),
  inGo("anthropic for Go 1.84.0", "anthropic"),
  inNode("openai for Node", "openai.ts"),
  inNode("anthropic for Node", "anthropic.ts"),
  inNode("Vercel AI SDK", "ai-sdk.ts"),
  inPython("LangChain", "langchain_client.py", "langchain-openai==1.7.4", "langchain-anthropic==1.7.10"),
  inPython("LlamaIndex", "llamaindex_client.py", "llama-index-llms-openai-like==0.8.1"),
  inPython("pydantic-ai 2.68.0", "pydantic_client.py", pydanticAi),
  inPython("instructor 1.17.0", "instructor_client.py", "instructor==1.17.0"),
  inPython("openai-agents 0.24.0", "agents_client.py", "openai-agents==0.24.0"),
  inPython("litellm 1.110.2", "litellm_client.py", "litellm==1.110.2"),
  agent("Codex", "@openai/codex@0.171.0", "codex", "exec", ...codexFlags, task),
  {
    ...agent("Codex over a WebSocket", "@openai/codex@0.171.0", "codex", "exec", ...codexFlags, task),
    needsSocket: true,
  },
  agent("Claude Code", "@anthropic-ai/claude-code@2.1.332", "claude", "-p", task, "--allowedTools", "Bash,Read"),
  agent("opencode", "opencode-ai@1.18.33", "opencode", "run", task),
  agent("Qwen Code", "@qwen-code/qwen-code@0.24.4", "qwen", "-p", task, "--yolo", "--auth-type", "openai"),
];
