import { quoted, shellWord, type Place } from "./place.ts";
import type { Snippet } from "./snippet.ts";

function codexText({ mark, written, keyVariable }: Place, model: string, more = ""): string {
  return `mkdir -p ~/.codex
cat > ~/.codex/config.toml <<${mark}
model = ${quoted(model)}
model_provider = "relay"
[model_providers.relay]
name = "relay"
base_url = ${written("/v1")}
env_key = "${keyVariable}"
wire_api = "responses"
${more}END
codex
`;
}

function claudeText({ sh, keyVariable }: Place, model: string): string {
  const name = shellWord(model);
  return `export ANTHROPIC_BASE_URL=${sh("")} ANTHROPIC_AUTH_TOKEN="$${keyVariable}" ANTHROPIC_MODEL=${name}
export ANTHROPIC_DEFAULT_OPUS_MODEL=${name} ANTHROPIC_DEFAULT_SONNET_MODEL=${name}
export ANTHROPIC_DEFAULT_HAIKU_MODEL=${name}
claude
`;
}

function opencodeText({ mark, written, keyVariable }: Place, model: string): string {
  return `cat > opencode.json <<${mark}
{
  "model": ${quoted(`relay/${model}`)},
  "provider": {
    "relay": {
      "npm": "@ai-sdk/openai-compatible",
      "options": { "baseURL": ${written("/v1")}, "apiKey": "{env:${keyVariable}}" },
      "models": { ${quoted(model)}: {} }
    }
  }
}
END
opencode
`;
}

function qwenText({ sh, keyVariable }: Place, model: string): string {
  const name = shellWord(model);
  return `export OPENAI_BASE_URL=${sh("/v1")} OPENAI_API_KEY="$${keyVariable}" OPENAI_MODEL=${name}
qwen --auth-type openai
`;
}

/** Agents that write code. */
export const agents: readonly Snippet[] = [
  {
    id: "claude-code",
    title: "Claude Code",
    install: "npm install -g @anthropic-ai/claude-code",
    endpoint: "/v1/messages",
    kind: "set-up",
    text: claudeText,
  },
  {
    id: "codex",
    title: "Codex",
    install: "npm install -g @openai/codex",
    endpoint: "/v1/responses",
    kind: "set-up",
    text: (place, model) => codexText(place, model),
  },
  {
    id: "codex-socket",
    title: "Codex over a WebSocket",
    install: "npm install -g @openai/codex",
    endpoint: "/v1/responses",
    kind: "set-up",
    text: (place, model) => codexText(place, model, "supports_websockets = true\n"),
  },
  {
    id: "opencode",
    title: "opencode",
    install: "npm install -g opencode-ai",
    endpoint: "/v1/chat/completions",
    kind: "set-up",
    text: opencodeText,
  },
  {
    id: "qwen-code",
    title: "Qwen Code",
    install: "npm install -g @qwen-code/qwen-code",
    endpoint: "/v1/chat/completions",
    kind: "set-up",
    text: qwenText,
  },
];
