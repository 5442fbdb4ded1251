import { ServiceError } from "#shared/process/errors.ts";

/** Turns a failure of Redis into `unavailable`, for callers who can ask again. */
export async function whenRedisAnswers<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw new ServiceError("unavailable", "the hot store is not available", error);
  }
}
