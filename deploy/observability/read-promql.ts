import type { SyntaxNode, SyntaxNodeRef } from "@lezer/common";
import { parser } from "@prometheus-io/lezer-promql";

/** A label that an expression asks for, and the metrics of which at least one must have it. */
type QueriedLabels = { label: string; of: string[] };

/** What an expression names. */
export type ParsedQuery = {
  /** Where the expression is not PromQL; empty: it is. */
  errors: string[];
  metrics: string[];
  asked: QueriedLabels[];
};

/** Grafana's own variables, as values that PromQL takes. */
export const withoutVariables = (expr: string): string =>
  expr.replaceAll("$__rate_interval", "1m").replaceAll("$__range", "3h").replaceAll("$namespace", ".*");

/** Reads one expression of PromQL. */
export function readPromql(expr: string): ParsedQuery {
  const textOf = ({ from, to }: SyntaxNodeRef): string => expr.slice(from, to);
  const reading: ParsedQuery = { errors: [], metrics: [], asked: [] };
  parser.parse(expr).iterate({
    enter: (node) => {
      if (node.type.isError) reading.errors.push(`${textOf(node) || "an end"} at ${node.from}`);
      if (node.name === "VectorSelector") readSelector(node.node, textOf, reading);
      if (node.name === "GroupingLabels") {
        // Labels of "by" belong to its aggregation, those of "on" to the two sides around it.
        const whole = node.node.parent?.parent;
        const of = whole ? metricsIn(whole, textOf) : [];
        for (const label of childrenOf(node.node, "LabelName")) reading.asked.push({ label: textOf(label), of });
      }
    },
  });
  return reading;
}

function readSelector(selector: SyntaxNode, textOf: (node: SyntaxNodeRef) => string, reading: ParsedQuery): void {
  const name = selector.getChild("Identifier");
  if (!name) return void reading.errors.push(`${textOf(selector)} names no metric`);
  const metric = textOf(name);
  reading.metrics.push(metric);
  const matchers = selector.getChild("LabelMatchers");
  for (const matcher of matchers ? childrenOf(matchers, "UnquotedLabelMatcher") : []) {
    for (const label of childrenOf(matcher, "LabelName")) reading.asked.push({ label: textOf(label), of: [metric] });
  }
}

const childrenOf = (node: SyntaxNode, name: string): SyntaxNode[] => node.getChildren(name);

function metricsIn(node: SyntaxNode, textOf: (node: SyntaxNodeRef) => string): string[] {
  const found: string[] = [];
  node.cursor().iterate((inner) => {
    const name = inner.name === "VectorSelector" ? inner.node.getChild("Identifier") : undefined;
    if (name) found.push(textOf(name));
  });
  return found;
}
