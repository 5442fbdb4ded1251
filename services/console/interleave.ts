type Next<T> = { of: AsyncGenerator<T>; result: IteratorResult<T, unknown> };

const nextOf = async <T>(of: AsyncGenerator<T>): Promise<Next<T>> => ({ of, result: await of.next() });

/** What several sources give, in the order in which it comes. */
export async function* interleave<T>(sources: readonly AsyncGenerator<T>[]): AsyncGenerator<T> {
  const waiting = new Map(sources.map((source) => [source, nextOf(source)]));
  while (waiting.size > 0) {
    const { of, result } = await Promise.race(waiting.values());
    if (result.done) waiting.delete(of);
    else {
      waiting.set(of, nextOf(of));
      yield result.value;
    }
  }
}

/** What several sources give, one after the other. */
export async function* inOrder<T>(sources: readonly AsyncGenerator<T>[]): AsyncGenerator<T> {
  for (const source of sources) yield* source;
}
