/** Runs checks of a client and prints how each went, as the harness reads it. */

const { BASE_URL = "", API_KEY = "", MODEL = "" } = process.env;

export const setting = { baseUrl: BASE_URL, apiKey: API_KEY, model: MODEL };

// Every tool gives back one of these words; the last answer must hold both.
export const words = { get_weather: "word-sunny", get_time: "word-noon" };

export const twoTools = "[two tools] Tell the weather and the time.";
export const structured = "[structured] Who is it?";

/** A prompt that tells the fake provider how to behave. */
export const fake = (behaviour: object, text = "Go on."): string => `${JSON.stringify({ fake: behaviour })}\n${text}`;

export function expectWords(text: string): void {
  for (const word of Object.values(words)) if (!text.includes(word)) throw new Error(`${word} is not in ${text}`);
}

/** Runs the checks one after the other. */
export async function runChecks(checks: Record<string, () => Promise<void>>): Promise<void> {
  for (const [name, check] of Object.entries(checks)) {
    const failure = await check().then(
      () => undefined,
      (error: unknown) => String(error).replaceAll("\n", " ").slice(0, 600),
    );
    process.stdout.write(failure === undefined ? `ok ${name}\n` : `failed ${name} ${failure}\n`);
  }
}
