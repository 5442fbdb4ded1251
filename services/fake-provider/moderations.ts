import { type Plan, randomId } from "./answer.ts";
import type { Behaviour } from "./behaviour.ts";
import { isObject } from "./dialect.ts";
import type { FakeRequest } from "./request.ts";

const categories = [
  "harassment",
  "harassment/threatening",
  "hate",
  "hate/threatening",
  "illicit",
  "illicit/violent",
  "self-harm",
  "self-harm/intent",
  "self-harm/instructions",
  "sexual",
  "sexual/minors",
  "violence",
  "violence/graphic",
];

/** Judges every text of a request: a category is flagged when the text names it. Tells no use, as the provider. */
export function planModerations(request: FakeRequest, behaviour: Behaviour): Plan {
  const { input } = request.fields;
  const inputs = Array.isArray(input) && !input.some(isObject) ? (input as string[]) : [request.lastUserText];
  const whole = {
    id: randomId("modr-", 4),
    model: behaviour.servedModel ?? request.model,
    results: inputs.map(judge),
  };
  return {
    claim: undefined,
    tokens: 0,
    render: () => ({ type: "application/json", body: `${JSON.stringify(whole, null, 2)}\n` }),
  };
}

function judge(text: string): object {
  const said = text.toLowerCase();
  const byCategory = <T>(of: (isFlagged: boolean) => T): object =>
    Object.fromEntries(categories.map((category) => [category, of(said.includes(category))]));
  return {
    flagged: categories.some((category) => said.includes(category)),
    categories: byCategory((isFlagged) => isFlagged),
    category_scores: byCategory((isFlagged) => (isFlagged ? 0.97 : 0.0001)),
    category_applied_input_types: byCategory(() => ["text"]),
  };
}
