import { fromEnvironment } from "../../../services/console/html/snippets/place.ts";
import { runners, type Snippet } from "../../../services/console/html/snippets/snippet.ts";
import { snippets } from "../../../services/console/html/snippets/snippets.ts";

const languages = { sh: "sh", mjs: "js", py: "python", go: "go", "set-up": "sh" };
const standsFor = "demo-chat";

// The README has lines of curl for all endpoints elsewhere.
const shown = snippets.filter(({ id }) => id !== "curl");

function howTo({ install, kind }: Snippet): string {
  if (kind === "set-up") return `First \`${install}\`, then in the folder of your project:`;
  const file = `ask.${kind}`;
  return `First \`${install}\`, then save this as \`${file}\` and run \`${runners[kind]} ${file}\`:`;
}

/** The recipes of clients as the README of the relay shows them. */
export const renderRecipes = (): string =>
  shown
    .map((snippet) => {
      const code = snippet.text(fromEnvironment, standsFor);
      return `### ${snippet.title}\n\n${howTo(snippet)}\n\n\`\`\`${languages[snippet.kind]}\n${code}\`\`\``;
    })
    .join("\n\n");

const anchor = (title: string): string => title.toLowerCase().replaceAll(" ", "-");

/** Links to them for the first README. */
export const linkRecipes = (): string =>
  shown.map(({ title }) => `[${title}](services/relay/README.md#${anchor(title)})`).join(" ·\n");
