/** The credential as OpenAI and compatible servers take it. */
export const bearer = (credential: string): string[] => ["authorization", `Bearer ${credential}`];
