/** A field of a message or a value of an enum, as usage.proto writes it. */
export type Member = { number: number; name: string; type: string; comment: string };

/** A message or an enum with its members, in the order of the file. */
export type Part = { kind: "message" | "enum"; name: string; comment: string; members: Member[] };

const partStart = /^(message|enum) (\w+) \{$/;
const member = /^ {2}(?:((?:optional |repeated )?[\w.]+) )?(\w+) = (\d+);$/;

/** Reads messages and enums with their comments from a contract in the format of `buf format`. */
export function readParts(text: string): Part[] {
  const parts: Part[] = [];
  let comment: string[] = [];
  for (const line of text.split("\n")) {
    const words = /^ *\/\/ ?(.*)$/.exec(line)?.[1];
    if (words !== undefined) {
      comment.push(words);
      continue;
    }
    const [, kind, name] = partStart.exec(line) ?? [];
    const [, type = "", memberName, number] = member.exec(line) ?? [];
    if (kind && name) parts.push({ kind: kind as Part["kind"], name, comment: comment.join(" "), members: [] });
    else if (memberName) {
      parts.at(-1)?.members.push({ number: Number(number), name: memberName, type, comment: comment.join(" ") });
    }
    comment = [];
  }
  return parts;
}

const code = (text: string): string => `\`${text}\``;
// Outside of code Markdown takes words in angle brackets for HTML.
const plain = (text: string): string => text.replaceAll(/[<|]/g, "\\$&");

const [start, end] = ["<!-- fields:start -->", "<!-- fields:end -->"];

/** The README with the tables of this contract between its marks. */
export function withTables(readme: string, contract: string): string {
  const [from, to] = [readme.indexOf(start), readme.indexOf(end)];
  if (from === -1 || to < from) throw new Error(`the README needs the lines ${start} and ${end}`);
  return `${readme.slice(0, from)}${start}\n\n${renderTables(readParts(contract))}\n\n${readme.slice(to)}`;
}

// A table per message and enum: what its comments say of each member.
function renderTables(parts: readonly Part[]): string {
  return parts.map(renderPart).join("\n\n");
}

function renderPart({ kind, name, comment, members }: Part): string {
  const head =
    kind === "message" ? "| # | field | type | meaning |\n|---|---|---|---|" : "| # | value | meaning |\n|---|---|---|";
  const rows = members.map((each) => {
    const cells = [
      String(each.number),
      code(each.name),
      ...(kind === "message" ? [code(each.type)] : []),
      plain(each.comment),
    ];
    return `| ${cells.join(" | ")} |`;
  });
  return [`### ${name}`, "", plain(comment), "", head, ...rows].join("\n");
}
