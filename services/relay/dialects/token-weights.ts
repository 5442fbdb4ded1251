// How many tokens a text is, about, without a tokenizer: none runs on the event loop. The numbers were fitted to
// o200k_base (deploy/test/cheats prints how well): random text of any kind weighs at least nine tenths of its tokens,
// prose and code at most one and a half times theirs. Weights are 64ths of a token, whose sums are exact in any order.

/** Tokens of a weight of 1. */
export const part = 1 / 64;
const backslash = 92;

// Classes of ASCII.
const [space, lineBreak, mark, digit, upper, lower] = [0, 1, 2, 3, 4, 5] as const;

function classOf(code: number): number {
  if (code >= 97 && code <= 122) return lower;
  if (code >= 65 && code <= 90) return upper;
  if (code >= 48 && code <= 57) return digit;
  if (code === 32) return space;
  return code < 32 ? lineBreak : mark;
}

/** In 64ths of a token, by the class before and the class of the character itself. */
const byClasses: Record<number, readonly number[]> = {
  //           space break mark digit upper lower
  [space]: [1, 52, 58, 136, 59, 59],
  [lineBreak]: [13, 52, 26, 70, 70, 70],
  [mark]: [13, 52, 52, 64, 70, 51],
  [digit]: [1, 52, 26, 32, 70, 70],
  [upper]: [1, 52, 26, 64, 54, 26],
  [lower]: [1, 52, 26, 64, 38, 54],
};

const repeated = { [space]: 1, [lineBreak]: 5, [mark]: 3 } as Record<number, number>;
const knownPair = { [upper]: 6, [lower]: 4 } as Record<number, number>;
const knownCapital = 3;

/** Letters that often follow a letter in words of the languages with Latin letters. */
const followers: Record<string, string> = {
  a: "bcdfgilmnrstuvwy",
  b: "aeilorsuy",
  c: "acehiklotu",
  d: "aeilorsuy",
  e: "acdefgilmnprstvwxy",
  f: "aefiortu",
  g: "ehilnors",
  h: "aeiorsty",
  i: "cdefglmnorstv",
  k: "eins",
  l: "adeilostuvy",
  m: "abeimopsu",
  n: "acdefgikostuy",
  o: "bdfklmnoprstuvw",
  p: "aehiloprst",
  q: "u",
  r: "acdegiklmnorstuvy",
  s: "acehilmopstu",
  t: "aehilorstuwy",
  u: "ceglmnprst",
  v: "aeio",
  w: "aehinos",
  y: "s",
  x: "p",
  z: "e",
  j: "ou",
};

const isKnownPair = (before: number, code: number): boolean =>
  followers[String.fromCharCode(before | 32)]?.includes(String.fromCharCode(code | 32)) ?? false;

function asciiWeight(before: number, code: number): number {
  const [classBefore, classHere] = [classOf(before), classOf(code)];
  if (before === code && repeated[classHere] !== undefined) return repeated[classHere];
  if (classHere >= upper && classBefore >= upper && isKnownPair(before, code)) {
    if (classBefore === classHere) return knownPair[classHere] ?? 0;
    if (classBefore === upper) return knownCapital;
  }
  return byClasses[classBefore]?.[classHere] ?? 0;
}

const asciiEnd = 128;

// Behind a character of another script.
const afterWide = (code: number): number => (classOf(code) === space ? 1 : 59);

/** What stands for any code unit beyond ASCII that came before. */
const anyWide = asciiEnd;

function makePairs(): Uint8Array {
  const pairs = new Uint8Array(0x1_00_00);
  for (let code = 0; code < asciiEnd; code += 1) {
    for (let before = 0; before < asciiEnd; before += 1) pairs[before | (code << 8)] = asciiWeight(before, code);
    pairs[anyWide | (code << 8)] = afterWide(code);
  }
  return pairs;
}

/** By the character before and, times 256, the character: any two neighbours in a word are such a number. */
const pairWeights = makePairs();

/** Scripts: first and last code unit, its weight, and characters that are frequent in words, with theirs. */
type Script = [first: number, last: number, weight: number, frequent?: string, frequentWeight?: number];

const scripts: readonly Script[] = [
  [0x00_80, 0x00_bf, 58],
  [0x00_c0, 0x00_ff, 83, "äöüßéèàçñóíáêôâîëïùûúãõåæø", 40],
  [0x01_00, 0x02_4f, 105, "œąęśżźćńłıişğčšžěřůđơư", 40],
  [0x03_00, 0x03_6f, 118],
  [0x03_70, 0x03_ff, 74, "αοιεςντσηρυκμπλίάόή", 29],
  [0x04_00, 0x04_5f, 86, "оеаинтсрвлкмдпуыьяг", 14],
  [0x04_60, 0x05_2f, 118],
  [0x05_90, 0x05_ff, 61, "יוהלאמתרבשנ", 26],
  [0x06_00, 0x06_ff, 82, "اليمنترودبعةفهكسقح", 19],
  [0x09_00, 0x09_7f, 80, "कारेंीहसनतोमलयिप्वद", 48],
  [0x0e_00, 0x0e_7f, 83, "านรกเงมอย่วลดท้สตะั", 32],
  [0x1e_00, 0x1e_ff, 46],
  [0x20_00, 0x20_6f, 58],
  [0x21_90, 0x27_bf, 118],
  [0x30_00, 0x30_3f, 58],
  [
    0x30_40,
    0x30_ff,
    83,
    "のにはをたがでてとしれさいるあっりなこもすかくまうんだらよきけどスンルトリアイラクドレテ",
    35,
  ],
  [0x34_00, 0x4d_bf, 176],
  [0xfe_00, 0xfe_0f, 20],
  [0xff_00, 0xff_ef, 58],
  // Halves of characters beyond the first plane; pictographs are in three of the first ones.
  [0xd8_00, 0xdb_ff, 170],
  [0xd8_3c, 0xd8_3e, 100],
  [0xdc_00, 0xdf_ff, 72],
];

const rareWeight = 178;

/** Han and Hangul, of which old national standards list the characters in use by how usual they are. */
const listed = { han: [0x4e_00, 0x9f_ff, 125, 96] as const, hangul: [0xac_00, 0xd7_a3, 154, 66] as const };
const frequentHan =
  "的一是不了在人有我他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可里后小么心多天而能好都然没日于起还发成事只作当想看文无开手用主行方" +
  "又如前所本见经头面公同三已老从动两长知民样现分将外但身些与高意进把法此实回二理美点月明其种声全工己话儿者向情部正名定女问力机给等几很业最间新什打便位因重被走电四" +
  "第门相次东政海口使教西再平真听世气信北少关并内加化由却代军产入先山五太水万市眼体别处总才场师书比住员九笑性通目华报立马命张活难神数件安表原车白应路期叫死常提感金" +
  "何更反合放做系计或司利受光王果亲界及今京务制解各任至清物台象记边共风战干接它许八特觉望直服毛林题建南度统色字请交爱让认算论百吃义科怎元社术结六功指思非流每青管夫" +
  "連遠資隊跟帶花快條院變聯言權這來國個說們為會時後過學對還發見經頭長現將與進實點問東機間電門開關體應當從動樣種聲業記";
const frequentHangul =
  "이다는에을의가고한하지로은어들사를도그있기서나자아리수인해일여시대만부정과게것오보제장전라면스니와으상주구원성동위했습";
const frequentListed = { han: 38, hangul: 40 };

const firstListedByte = 0xa1;
const listedRowLength = 94;
const textOfRows = (encoding: string, firstRow: number, lastRow: number): string => {
  const bytes: number[] = [];
  for (let row = firstRow; row <= lastRow; row += 1) {
    for (let cell = 0; cell < listedRowLength; cell += 1) bytes.push(firstListedByte - 1 + row, firstListedByte + cell);
  }
  return new TextDecoder(encoding).decode(Uint8Array.from(bytes));
};

function makeWideWeights(): Uint8Array {
  const weights = new Uint8Array(0x1_00_00).fill(rareWeight);
  const mark = (characters: string, weight: number, first: number, last: number): void => {
    for (let at = 0; at < characters.length; at += 1) {
      const code = characters.charCodeAt(at);
      if (code >= first && code <= last) weights[code] = weight;
    }
  };
  for (const [first, last, weight, frequent = "", frequentWeight = 0] of scripts) {
    weights.fill(weight, first, last + 1);
    mark(frequent, frequentWeight, first, last);
  }
  const { han, hangul } = listed;
  for (const [first, last, rare] of [han, hangul]) weights.fill(rare, first, last + 1);
  // GB 2312 and JIS X 0208, level 1, and KS X 1001.
  mark(textOfRows("gbk", 16, 55), han[3], han[0], han[1]);
  mark(textOfRows("euc-jp", 16, 47), han[3], han[0], han[1]);
  mark(textOfRows("euc-kr", 16, 40), hangul[3], hangul[0], hangul[1]);
  mark(frequentHan, frequentListed.han, han[0], han[1]);
  mark(frequentHangul, frequentListed.hangul, hangul[0], hangul[1]);
  return weights;
}

// Of an answer each character weighs by itself, so that a stream counts as the whole answer of the same text does, in
// whatever pieces and whatever order it comes. Letters that are rare in words weigh more than frequent ones, because
// random letters are half a token each and words a fifth of one a letter.
const alone: readonly [characters: string, weight: number][] = [
  ["ABCDEFGHIJKLMNOPQRSTUVWXYZ", 49],
  ["0123456789", 48],
  ["etaoinsrh", 13],
  ["lducmpfgyb", 29],
  ["kxjqzvw", 61],
  [" ", 4],
  [".,'-_()\":;/=", 26],
];
const markAlone = 61;
const breakAlone = 38;

function makeAlone(): Uint8Array {
  const weights = makeWideWeights();
  for (let code = 0; code < asciiEnd; code += 1) weights[code] = code < 32 ? breakAlone : markAlone;
  for (const [characters, weight] of alone) {
    for (let at = 0; at < characters.length; at += 1) weights[characters.charCodeAt(at)] = weight;
  }
  return weights;
}

const weights = makeAlone();

// Of what is longer only samples are weighed, as many characters in all: nobody waits for megabytes of one event.
const weighedWhole = 262_144;
const sampleLength = 512;

function weightOf(text: string): number {
  let sum = 0;
  for (let at = 0; at < text.length; at += 1) sum += weights[text.charCodeAt(at)] as number;
  return sum;
}

function weightBySamples(text: string): number {
  const samples = weighedWhole / sampleLength;
  let sum = 0;
  for (let sample = 0; sample < samples; sample += 1) {
    const from = Math.floor((sample * text.length) / samples);
    sum += weightOf(text.slice(from, from + sampleLength));
  }
  return Math.round((sum * text.length) / weighedWhole);
}

/** Tokens of a text of an answer, about. Charges that rest on it are flagged as estimated. */
export function estimateTokens(text: string): number {
  return (text.length > weighedWhole ? weightBySamples(text) : weightOf(text)) * part;
}

/** The same for bytes that are ASCII without escapes. */
export function estimateAsciiTokens(bytes: Buffer, start: number, end: number): number {
  let sum = 0;
  for (let at = start; at < end; at += 1) sum += weights[bytes[at] as number] as number;
  return sum * part;
}

/** What stands before the first character of a request: a new word begins there. */
export const textStart = 32;

/**
 * Weight, in 64ths of a token, that a code unit of a request adds behind another. Callers choose what they send, so
 * it is weighed more closely: tokens end where the class of characters changes. Letters that follow each other in
 * words are nearly free, others, digits, marks and rare scripts are tokens of their own.
 */
export function weightOfUnit(before: number, code: number): number {
  if (code >= asciiEnd) return weights[code] as number;
  return pairWeights[Math.min(before, anyWide) | (code << 8)] as number;
}

/** A request that is weighed: the sum of its weights so far, the code unit that came last, the place behind it. */
export type Weighing = {
  bytes: Buffer;
  /** The memory in which the bytes lie, in words of four, and the byte of it at which they begin. */
  words: Int32Array;
  offset: number;
  sum: number;
  before: number;
  at: number;
};

export function beginWeighing(bytes: Buffer): Weighing {
  const { buffer, byteOffset: offset } = bytes;
  return { bytes, words: new Int32Array(buffer, 0, buffer.byteLength >> 2), offset, sum: 0, before: textStart, at: 0 };
}

/** What a letter behind a backslash stands for; 0 for one that is no simple escape. */
const escaped = new Uint8Array(256);
for (const [letter, meant] of ['""', "\\\\", "//", "b\b", "f\f", "n\n", "r\r", "t\t"]) {
  escaped[(letter as string).charCodeAt(0)] = (meant as string).charCodeAt(0);
}

const ones = 0x01010101;
const backslashes = 0x5c5c5c5c;
const highBits = 0x80808080;

/** Whether a word has neither a byte beyond ASCII nor a backslash. */
function isPlain(word: number): boolean {
  const turned = word ^ backslashes;
  return ((word | ((turned - ones) & ~turned)) & highBits) === 0;
}

/**
 * Weighs bytes up to `stop`, or to the first that is neither plain ASCII nor a simple escape. Four at once: a byte at a
 * time takes twice as long, which was half of what a call of 32 KB cost (deploy/bench/README.md, What was tried).
 */
export function weighRun(weighing: Weighing, stop: number): void {
  const { bytes, words, offset } = weighing;
  let { at, sum } = weighing;
  let last = Math.min(weighing.before, anyWide);
  const lastWord = offset + stop - 4;
  while (at < stop) {
    if (((offset + at) & 3) === 0) {
      const from = offset + at;
      let next = from;
      for (; next <= lastWord && isPlain(words[next >> 2] as number); next += 4) {
        const word = words[next >> 2] as number;
        sum +=
          (pairWeights[last | ((word & 0xff) << 8)] as number) +
          (pairWeights[word & 0xffff] as number) +
          (pairWeights[(word >>> 8) & 0xffff] as number) +
          (pairWeights[word >>> 16] as number);
        last = word >>> 24;
      }
      at += next - from;
      if (at >= stop) break;
    }
    const byte = bytes[at] as number;
    if (byte >= asciiEnd) break;
    const unit = byte === backslash ? (escaped[bytes[at + 1] ?? 0] as number) : byte;
    if (unit === 0 && byte === backslash) break;
    sum += pairWeights[last | (unit << 8)] as number;
    last = unit;
    at += byte === backslash ? 2 : 1;
  }
  weighing.sum = sum;
  weighing.at = at;
  weighing.before = last;
}
