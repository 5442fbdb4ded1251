// Pictures and sound come as one text of megabytes, which JSON.parse goes through a character at a time: 20 ms of a
// stream's 12 MB, in which nobody else is served. Looking for its end takes 2.
const shortText = 262_144;
const longText = 65_536;
// A text of many short texts is parsed as it is: each costs a search.
const mostQuotes = 4_096;

type Place = { start: number; end: number };

function isEscaped(text: string, at: number): boolean {
  let before = at;
  while (text[before - 1] === "\\") before -= 1;
  return (at - before) % 2 === 1;
}

/** Index of the quote that ends the text that begins at `start`, and how many quotes were looked at. */
function endOfText(text: string, start: number): { end: number; quotes: number } {
  let quotes = 1;
  let end = text.indexOf('"', start);
  for (; end !== -1 && isEscaped(text, end) && quotes < mostQuotes; quotes += 1) end = text.indexOf('"', end + 1);
  return { end, quotes };
}

const isName = /^[ \t\r\n]*:/;

/** Long texts without escapes that are values, in their order. */
function findLongTexts(text: string): Place[] {
  const found: Place[] = [];
  let backslash = text.indexOf("\\");
  let quotes = 0;
  for (let at = text.indexOf('"'); at !== -1 && quotes < mostQuotes;) {
    const start = at + 1;
    const { end, quotes: seen } = endOfText(text, start);
    quotes += seen + 1;
    if (end === -1 || quotes > mostQuotes) break;
    if (end - start >= longText) {
      if (backslash !== -1 && backslash < start) backslash = text.indexOf("\\", start);
      const isPlain = backslash === -1 || backslash > end;
      if (isPlain && !isName.test(text.slice(end + 1, end + 32))) found.push({ start, end });
    }
    at = text.indexOf('"', end + 1);
  }
  return found;
}

// Told to nobody, so no text can hold it.
const standIn = `long text ${Math.random()} `;

function putBack(value: unknown, texts: ReadonlyMap<string, string>): unknown {
  if (typeof value === "string") return texts.get(value) ?? value;
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      if (typeof item === "string" || (typeof item === "object" && item !== null)) value[index] = putBack(item, texts);
    }
  } else if (typeof value === "object" && value !== null) {
    const members = value as Record<string, unknown>;
    for (const name of Object.keys(members)) members[name] = putBack(members[name], texts);
  }
  return value;
}

/**
 * JSON.parse, but that long texts are cut out and not gone through. Throws a SyntaxError. What JSON forbids within a
 * long text, a raw control character, is not noticed.
 */
export function parseJson(text: string): unknown {
  const places = text.length < shortText ? [] : findLongTexts(text);
  if (places.length === 0) return JSON.parse(text);
  const texts = new Map<string, string>();
  let short = "";
  let from = 0;
  for (const { start, end } of places) {
    const name = standIn + texts.size;
    texts.set(name, text.slice(start, end));
    short += text.slice(from, start) + name;
    from = end;
  }
  return putBack(JSON.parse(short + text.slice(from)), texts);
}

/** Whether a text is long and of base64 only, in which JSON escapes nothing; whoever decodes skips what is not. */
export function isLongBase64(text: string): boolean {
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const bytes = (text.length * 3) / 4 - padding;
  return text.length >= longText && text.length % 4 === 0 && Buffer.from(text, "base64").length === bytes;
}

/** A picture's data as the long texts of what is written around it: none, where it is short or no base64. */
export const longTextsOf = (data: string): string[] => (isLongBase64(data) ? [data] : []);

/** JSON.stringify, but that texts which end in one of these, of base64, get that end as it is. */
export function writeJson(value: unknown, long: readonly string[]): string {
  if (long.length === 0) return JSON.stringify(value);
  const short = JSON.stringify(value, (_name, member: unknown) => {
    if (typeof member !== "string" || member.length < longText) return member;
    const at = long.findIndex((text) => member.endsWith(text));
    return at === -1 ? member : `${member.slice(0, -(long[at] as string).length)}${standIn}${at};`;
  });
  const [head = "", ...pieces] = short.split(standIn);
  return pieces.reduce((written, piece) => {
    const end = piece.indexOf(";");
    return written + (long[Number(piece.slice(0, end))] ?? "") + piece.slice(end + 1);
  }, head);
}
