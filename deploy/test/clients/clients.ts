import { mkdir, writeFile } from "node:fs/promises";
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

/** An agent of npm, which runs in the folder of its setting. */
function agent(
  name: string,
  requirement: string,
  program: string,
  configure: (setting: Setting) => Promise<Omit<Started, "command">>,
): Client {
  return {
    name,
    kind: "agent",
    install: () => installNpm(requirement, program),
    start: async (path, setting) => ({ command: path, ...(await configure(setting)) }),
  };
}

const codex = agent("Codex CLI 0.169.0", "@openai/codex@0.169.0", "codex", async (setting) => {
  const { baseUrl, apiKey, model, folder } = setting;
  const home = join(folder, ".codex");
  await mkdir(home, { recursive: true });
  const lines = [
    `model = "${model}"`,
    'model_provider = "relay"',
    "[model_providers.relay]",
    'name = "relay"',
    `base_url = "${baseUrl}/v1"`,
    'env_key = "API_KEY"',
    'wire_api = "responses"',
  ];
  await writeFile(join(home, "config.toml"), `${lines.join("\n")}\n`);
  const flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];
  return { args: ["exec", ...flags, task], environment: { CODEX_HOME: home, API_KEY: apiKey } };
});

const claudeCode = agent(
  "Claude Code 2.1.332",
  "@anthropic-ai/claude-code@2.1.332",
  "claude",
  async ({ baseUrl, apiKey, model, folder }) => ({
    args: ["-p", task, "--allowedTools", "Bash,Read"],
    environment: {
      ANTHROPIC_BASE_URL: baseUrl,
      ANTHROPIC_AUTH_TOKEN: apiKey,
      ANTHROPIC_MODEL: model,
      ANTHROPIC_DEFAULT_OPUS_MODEL: model,
      ANTHROPIC_DEFAULT_SONNET_MODEL: model,
      ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
      CLAUDE_CONFIG_DIR: join(folder, ".claude"),
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    },
  }),
);

const opencode = agent("opencode 1.18.33", "opencode-ai@1.18.33", "opencode", async (setting) => {
  const { baseUrl, apiKey, model, folder } = setting;
  const provider = {
    npm: "@ai-sdk/openai-compatible",
    name: "relay",
    options: { baseURL: `${baseUrl}/v1`, apiKey },
    models: { [model]: { name: model } },
  };
  const config = { $schema: "https://opencode.ai/config.json", provider: { relay: provider }, permission: "allow" };
  await writeFile(join(folder, "opencode.json"), JSON.stringify(config));
  return { args: ["run", "-m", `relay/${model}`, task], environment: { OPENCODE_DISABLE_AUTOUPDATE: "1" } };
});

const qwenCode = agent(
  "Qwen Code 0.24.4",
  "@qwen-code/qwen-code@0.24.4",
  "qwen",
  async ({ baseUrl, apiKey, model }) => ({
    args: ["-p", task, "--yolo", "--auth-type", "openai"],
    environment: { OPENAI_BASE_URL: `${baseUrl}/v1`, OPENAI_API_KEY: apiKey, OPENAI_MODEL: model },
  }),
);

const pydanticAi = "pydantic-ai-slim[openai,anthropic]==2.68.0";

/** The clients, in the order in which they run. */
export const clients: readonly Client[] = [
  inPython("openai for Python 3.57.0", "openai_sdk.py", "openai==3.57.0", "anthropic==2.14.0"),
  inPython("anthropic for Python 2.14.0", "anthropic_sdk.py", "openai==3.57.0", "anthropic==2.14.0"),
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
  codex,
  claudeCode,
  opencode,
  qwenCode,
];
