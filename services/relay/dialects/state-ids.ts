import type { Cursor } from "./json/bytes.ts";
import { cursorOf, eachField, eachItem, isArray, isObject, isString, skipValue, takeString } from "./json/members.ts";
import type { RequestBody } from "./json/request-body.ts";
import { RequestError } from "./request-error.ts";
import {
  addressLandmarks,
  addressNames,
  audioLandmarks,
  isOwnAddress,
  isVoiceId,
  itemLandmarks,
  kindOfName,
  nameLandmarks,
  namesOfTop,
  type StateKind,
} from "./state-names.ts";

/** An id of a provider's state that a request names. */
export type StateId = {
  kind: StateKind;
  /** The top-level field in which it stands, and the whole way to it. */
  field: string;
  path: string;
  /** "" for one that is longer than any. */
  text: string;
  /** Bytes of that field's value: where the id's key begins (its own place in a list), the id, and behind it. */
  keyStart: number;
  start: number;
  end: number;
  /** Whether it only names an item that the request brings along, so that the request can do without it. */
  isOptional: boolean;
  /** Whether it is an address, which a conversion would carry like any other. */
  isAddress?: true;
};

/** An id as the upstream shall get it; without a text it and its key are left out. */
export type StateEdit = Pick<StateId, "field" | "keyStart" | "start" | "end"> & { text: string | undefined };

/** Of these only an object names state: a text is a prompt, or the name of a voice, unless it is an id of one. */
const textsAreOthers = new Set<StateKind>(["prompt", "audio", "voice"]);

// What a provider does not read as ids: schemas and inputs of tools, the caller's notes, what it has cited itself.
const callersOwn = new Set(["annotations", "citations", "input_schema", "metadata", "parameters", "results", "schema"]);
const ownInputTypes = new Set(["tool_use", "server_tool_use", "mcp_tool_use"]);
// Results that name files beside their content, which is here.
const resultTypes = new Set(["bash_code_execution_output", "code_execution_output"]);

const topNames = ["previous_response_id", "conversation", "prompt", "container", "cached_content", "cachedContent"];

/** Where ids stand in the requests of a format: whether `input` has items with ids, whether words have sound. */
export type StatePlaces = { hasItems?: true; hasAudio?: true };

const maxIds = 10_000;
const maxIdBytes = 512;
const addressHeadBytes = 256;
const voiceHeadBytes = 64;

// Go's encoding/json takes a name in any case.
const folded = (name: string): string => name.toUpperCase().toLowerCase();

type Place = { path: string; kind?: StateKind | undefined; isItem?: boolean; keyStart: number };

// What a caller is told of; nobody nests so deep that it does not fit.
const maxPathCharacters = 200;
const within = (path: string, name: string): string => (path.length > maxPathCharacters ? path : path + name);

// As much of a text as is whole: an escape at its end may be cut.
const wholeText = /^(?:[^"\\]|\\(?:u[\da-f]{4}|[^u]))*/i;

/** The beginning of a text, from that of its bytes behind the quote. */
function readHead(bytes: string): string {
  const [head = ""] = wholeText.exec(bytes) ?? [];
  return head.includes("\\") ? (JSON.parse(`"${head}"`) as string) : head;
}

class Finder {
  private readonly cursor: Cursor;
  private readonly field: string;
  private readonly found: StateId[];

  constructor(bytes: Buffer, field: string, found: StateId[]) {
    this.cursor = cursorOf(bytes);
    this.field = field;
    this.found = found;
  }

  /** Gives the id that the value itself is. */
  walk(place: Place): StateId | undefined {
    const { cursor } = this;
    if (isObject(cursor)) this.walkObject(place);
    else if (isArray(cursor)) this.walkList(place);
    else if (isString(cursor) && place.kind && this.isId(place.kind)) return this.note(place);
    else skipValue(cursor);
    return undefined;
  }

  /** Whether the text here is an id where one of this kind may stand. */
  private isId(kind: StateKind): boolean {
    const { bytes, at } = this.cursor;
    if (!textsAreOthers.has(kind)) return true;
    return kind === "voice" && isVoiceId(readHead(bytes.toString("latin1", at + 1, at + voiceHeadBytes)));
  }

  private walkList({ path, kind, isItem = false }: Place): void {
    let index = 0;
    eachItem(this.cursor, () => {
      isArray(this.cursor);
      this.walk({ path: within(path, `[${index}]`), kind, isItem, keyStart: this.cursor.at });
      index += 1;
    });
  }

  private walkObject({ path, kind, isItem }: Place): void {
    const { cursor } = this;
    const first = this.found.length;
    const types: (string | undefined)[] = [];
    const direct = new Set<StateId>();
    let own: StateId | undefined;
    let hasRole = false;
    let input = { from: first, to: first };
    eachField(cursor, (name, keyStart) => {
      const meant = folded(name ?? "");
      const here = within(path, `.${name ?? ""}`);
      if (meant === "type") types.push(takeString(cursor, maxIdBytes));
      else if (meant === "id" && (kind !== undefined || isItem)) {
        if (own) throw new RequestError(`field ${here} stands twice`);
        own = isString(cursor) ? this.note({ path: here, kind: kind ?? "response", keyStart }) : undefined;
        if (!own) skipValue(cursor);
      } else if (callersOwn.has(meant)) skipValue(cursor);
      else if (addressNames.has(meant) && isString(cursor)) this.takeAddress(here, keyStart);
      else {
        hasRole ||= meant === "role";
        const from = this.found.length;
        const id = this.walk({ path: here, kind: namesOfTop.has(meant) ? undefined : kindOfName.get(meant), keyStart });
        if (id) direct.add(id);
        if (meant === "input") input = { from, to: this.found.length };
      }
    });
    const type = types.length === 1 ? types[0] : undefined;
    if (own && isItem) own.isOptional = type === undefined ? types.length === 0 && hasRole : type !== "item_reference";
    if (type === undefined) return;
    if (ownInputTypes.has(type)) this.found.splice(input.from, input.to - input.from);
    else this.drop(first, direct, type);
  }

  /** Leaves out what an object of this type names without the provider's looking it up. */
  private drop(first: number, direct: ReadonlySet<StateId>, type: string): void {
    const kind = type === "anthropic" ? "skill" : resultTypes.has(type) ? "file" : undefined;
    if (kind === undefined) return;
    const kept = this.found.slice(first).filter((id) => id.kind !== kind || !direct.has(id));
    this.found.length = first;
    this.found.push(...kept);
  }

  /** Only the beginning of an address tells; it may be a picture. */
  private takeAddress(path: string, keyStart: number): void {
    const { bytes, at } = this.cursor;
    const head = readHead(bytes.toString("latin1", at + 1, at + addressHeadBytes));
    if (isOwnAddress(head)) this.note({ path, kind: "file", keyStart }).isAddress = true;
    else skipValue(this.cursor);
  }

  private note({ path, kind = "response", keyStart }: Place): StateId {
    const { cursor, field, found } = this;
    const start = cursor.at;
    const text = takeString(cursor, maxIdBytes) ?? "";
    if (found.length >= maxIds) throw new RequestError(`the body must have at most ${maxIds} ids`);
    const id = { kind, field, path, text, keyStart, start, end: cursor.at, isOptional: false };
    found.push(id);
    return id;
  }
}

const openBrace = "{".charCodeAt(0);
const voiceStart = Buffer.from('"voice_');

/** Whether the voice of speech may be an account's own. */
function mayNameVoice(body: RequestBody): boolean {
  const voice = body.slice("voice");
  return voice !== undefined && (voice[0] === openBrace || voice.subarray(0, voiceStart.length).equals(voiceStart));
}

function mayName(body: RequestBody, { hasItems, hasAudio }: StatePlaces): boolean {
  const isMet = (landmark: Buffer): boolean => body.mayHold(landmark);
  return (
    topNames.some((name) => body.has(name)) ||
    mayNameVoice(body) ||
    nameLandmarks.some(isMet) ||
    body.addresses > 0 ||
    addressLandmarks.some(isMet) ||
    (hasItems === true && itemLandmarks.some(isMet)) ||
    (hasAudio === true && (audioLandmarks.some(isMet) || body.has("audio"))) ||
    body.hasEscapedLetters()
  );
}

/** The ids of a provider's state that a request names; undefined for none, as nearly always. */
export function findStateIds(body: RequestBody, places: StatePlaces): StateId[] | undefined {
  if (!mayName(body, places)) return undefined;
  const found: StateId[] = [];
  for (const name of body.names()) {
    const bytes = body.slice(name);
    if (!bytes || callersOwn.has(name)) continue;
    const kind = kindOfName.get(folded(name));
    const isItem = places.hasItems === true && name === "input";
    // Settings of the sound that is asked for have a voice, and no id of their own.
    new Finder(bytes, name, found).walk({ path: name, kind: kind === "audio" ? undefined : kind, isItem, keyStart: 0 });
  }
  return found.length > 0 ? found : undefined;
}

const comma = ",".charCodeAt(0);
const isSpace = (byte: number | undefined): boolean => byte === 32 || byte === 10 || byte === 13 || byte === 9;

/** The bytes of a member with its comma, behind it or else in front. */
function memberRange(bytes: Buffer, { keyStart, end }: StateEdit): { from: number; to: number } {
  let to = end;
  while (isSpace(bytes[to])) to += 1;
  if (bytes[to] === comma) return { from: keyStart, to: to + 1 };
  let from = keyStart - 1;
  while (isSpace(bytes[from])) from -= 1;
  return { from: bytes[from] === comma ? from : keyStart, to: end };
}

function editField(bytes: Buffer, edits: readonly StateEdit[]): string {
  const pieces: Buffer[] = [];
  let at = 0;
  for (const edit of edits.toSorted((one, other) => one.start - other.start)) {
    const { text } = edit;
    const { from, to } = text === undefined ? memberRange(bytes, edit) : { from: edit.start, to: edit.end };
    pieces.push(bytes.subarray(at, from), Buffer.from(text === undefined ? "" : JSON.stringify(text)));
    at = to;
  }
  return Buffer.concat([...pieces, bytes.subarray(at)]).toString();
}

/** The body with other ids; what stays keeps its bytes. */
export function editStateIds(body: RequestBody, edits: readonly StateEdit[]): Buffer {
  const byField = Map.groupBy(edits, ({ field }) => field);
  const replace: Record<string, string> = {};
  for (const [field, ofField] of byField) {
    const bytes = body.slice(field);
    if (bytes) replace[field] = editField(bytes, ofField);
  }
  return body.rewrite({ replace });
}
