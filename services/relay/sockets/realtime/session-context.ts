import type { Units } from "#shared/money/pricing.ts";
import type { Model } from "../../catalog/models.ts";
import type { RequestFacts } from "../../live-call.ts";
import { formatsOf, type ClientEvent, type SessionChange } from "../../dialects/openai-realtime/client-event.ts";
import { heardTokens, millisecondsOf, type SoundFormat } from "../../dialects/openai-realtime/sound.ts";
import { usualPictureTokens } from "../../charge/media-tokens.ts";

// Of what is heard and not yet said to be of the conversation, most may be silence that the provider throws away.
const maxBufferedTokens = 600;

// What providers add of their own.
const promptTokens = 100;

const whole = (tokens: number): bigint => BigInt(Math.ceil(tokens));
const or0 = (units: bigint | undefined): number => Number(units ?? 0n);

/** The one of which a byte is more sound, until the provider says what it has taken over: it may refuse a change. */
const denser = (known: SoundFormat, given: SoundFormat | undefined): SoundFormat => (given === "g711" ? given : known);

/** Tokens of each kind. */
type ReadBeside = { text: number; sound: number; pictures: number };

/** All that callers have added to the conversation: by their events, and by committing what was heard. */
export type AddedSoFar = ReadBeside & { committed: number };

/** What the next response of a session reads, as far as it is known: for holds, and for what no provider counts. */
export class SessionContext {
  heard: SoundFormat = "pcm";
  spoken: SoundFormat = "pcm";
  /** The model that writes down what is heard, or did, by the caller's name. */
  transcriber: string | undefined;
  /** Whether it does; it goes on until the provider has taken over that it shall not. */
  private writing: "yes" | "ending" | "no" = "no";
  private outputCap: number | undefined;
  private text = promptTokens;
  private sound = 0;
  private pictures = 0;
  private cached = 0;
  private added: AddedSoFar = { text: 0, sound: 0, pictures: 0, committed: 0 };
  /** As it was when the response to come was asked for, or may have been; only what is behind it is surely not read. */
  private addedBefore: AddedSoFar | undefined;
  /** What responses beside the conversation read, the oldest first: gone when they have ended. */
  private readonly beside: ReadBeside[] = [];
  private isLastBeside = false;
  private spokenNext: SoundFormat | undefined;
  private buffered = 0;
  /** What of that is no silence that may be thrown away, for speech has begun or the caller has committed it. */
  private kept: "some" | "all" | { behind: number } = "some";
  private readonly unwritten = new Map<string, number>();

  change({ heard, spoken, transcriber, outputCap }: SessionChange): void {
    this.heard = denser(this.heard, heard);
    this.spoken = denser(this.spoken, spoken);
    if (transcriber) [this.transcriber, this.writing] = [transcriber, "yes"];
    else if (transcriber === null && this.writing === "yes") this.writing = "ending";
    if (outputCap !== undefined) this.outputCap = outputCap ?? undefined;
  }

  add({ textTokens, pictures, itemSound, heardSound, type, isBeside, change }: ClientEvent): void {
    if (type === "response.create") [this.isLastBeside, this.spokenNext] = [isBeside, change.spoken];
    if (isBeside) {
      const sound = heardTokens(itemSound, this.heard);
      this.beside.push({ text: textTokens, sound, pictures: pictures * usualPictureTokens });
      return;
    }
    this.text += textTokens;
    this.pictures += pictures * usualPictureTokens;
    this.sound += heardTokens(itemSound, this.heard);
    this.added.text += textTokens;
    this.added.pictures += pictures * usualPictureTokens;
    this.added.sound += heardTokens(itemSound, this.heard);
    if (type === "response.create" || type === "input_audio_buffer.commit") this.mayBegin();
    this.buffered += heardTokens(heardSound, this.heard);
    if (type === "input_audio_buffer.clear") this.empty();
    else if (type === "input_audio_buffer.commit") this.kept = "all";
  }

  /** The provider has taken over the settings: what was committed before is still written down, and nothing else. */
  updated(session: unknown): void {
    const { heard, spoken } = formatsOf(session);
    if (heard) this.heard = heard;
    if (spoken) this.spoken = spoken;
    if (this.writing === "ending") this.writing = "no";
  }

  /** How the sound of the response that begins is written: as was asked for it alone, else as in the session. */
  takeSpoken(): SoundFormat {
    const spoken = denser(this.spoken, this.spokenNext);
    this.spokenNext = undefined;
    return spoken;
  }

  /** Whether a model may write down what is heard: not while another one still does, for no event names which one. */
  mayWrite(transcriber: string): boolean {
    return transcriber === this.transcriber || (this.writing === "no" && this.unwritten.size === 0);
  }

  private mayBegin(): void {
    this.addedBefore ??= { ...this.added };
  }

  /** A response begins: gives what was added before, which it reads. One beside the conversation may not be meant. */
  begin(isOfConversation: boolean): AddedSoFar {
    const before = { ...(this.addedBefore ?? this.added), committed: this.added.committed };
    if (isOfConversation) this.addedBefore = undefined;
    return before;
  }

  /** The provider hears somebody speak, and may answer when they have spoken. */
  speak(): void {
    this.mayBegin();
    if (this.kept === "some") this.kept = { behind: Math.max(0, this.buffered - maxBufferedTokens) };
  }

  /** What was heard is an item of the conversation now. */
  commit(itemId: string): void {
    this.sound += this.buffered;
    this.added.committed += this.buffered;
    if (this.writing !== "no" && this.unwritten.size < 1_000) this.unwritten.set(itemId, this.buffered);
    this.empty();
  }

  /** Tokens of the sound of an item that has been written down, or never will be; 0 for one that is not known. */
  written(itemId: string): number {
    const tokens = this.unwritten.get(itemId) ?? 0;
    this.unwritten.delete(itemId);
    return tokens;
  }

  /** Sound that a model still writes down. */
  get unwrittenItems(): readonly string[] {
    return [...this.unwritten.keys()];
  }

  /**
   * The provider has counted a response of the conversation: the next one reads that, what was said, and what was added
   * behind the beginning of this one. One that was cut short may have been counted before all of it was read.
   */
  answered(usage: Units, before: AddedSoFar, isWhole: boolean): void {
    const { added } = this;
    const most = (known: number, told: number): number => (isWhole ? told : Math.max(known, told));
    const sound = added.sound - before.sound + added.committed - before.committed;
    this.text = most(this.text, or0(usage.inputTokens) + or0(usage.outputTokens) + added.text - before.text);
    this.sound = most(this.sound, or0(usage.audioInputTokens) + or0(usage.audioOutputTokens) + sound);
    this.pictures = most(this.pictures, or0(usage.imageInputTokens) + added.pictures - before.pictures);
    this.cached = most(this.cached, or0(usage.cacheReadTokens));
  }

  /** A response beside the conversation has ended. */
  answeredBeside(): void {
    this.beside.shift();
  }

  /** The provider makes no response of what was asked for last. */
  refusedLast(): void {
    if (this.isLastBeside) this.beside.pop();
    this.isLastBeside = false;
  }

  /** What the request settles, for a response that the provider does not count. */
  requested(): RequestFacts {
    let { text, sound, pictures } = this;
    for (const one of this.beside) {
      text += one.text;
      sound += one.sound;
      pictures += one.pictures;
    }
    const units: Units = { audioInputTokens: whole(sound + this.soundToCome()) };
    if (pictures > 0) units.imageInputTokens = whole(pictures);
    if (this.cached > 0) units.cacheReadTokens = whole(this.cached);
    return { inputTokens: Math.ceil(text), units, priceFields: {} };
  }

  /** What the next response may use: all that it reads, and all that it may say. */
  nextResponse(model: Model, cap = this.outputCap): Units {
    const { inputTokens, units } = this.requested();
    const output = BigInt(Math.min(cap ?? model.reserveOutputTokens, model.maxOutputTokens));
    const { outputTokens = 0n, reasoningTokens = 0n, audioOutputTokens = 0n } = model.prices;
    const dearest = reasoningTokens > outputTokens ? "reasoningTokens" : "outputTokens";
    const isSpoken = audioOutputTokens >= (model.prices[dearest] ?? 0n);
    return { ...units, inputTokens: BigInt(inputTokens), [isSpoken ? "audioOutputTokens" : dearest]: output };
  }

  /** What writing down may use of all that it has still to write. */
  nextTranscript(): Units {
    let tokens = this.writing === "no" ? 0 : this.soundToCome();
    for (const unwritten of this.unwritten.values()) tokens += unwritten;
    return transcriptUnits(Math.max(tokens, maxBufferedTokens));
  }

  private empty(): void {
    this.buffered = 0;
    this.kept = "some";
  }

  private soundToCome(): number {
    if (this.kept === "all") return this.buffered;
    return this.kept === "some" ? Math.min(this.buffered, maxBufferedTokens) : this.buffered - this.kept.behind;
  }
}

/** What writing down so much sound takes, in either unit by which it is priced. */
export function transcriptUnits(tokens: number): Units {
  return {
    audioInputTokens: whole(tokens),
    outputTokens: whole(tokens / 2),
    mediaMs: BigInt(millisecondsOf(tokens)),
  };
}
