/** Runs `work` for 0 to `count` - 1, at most `width` of them at once. Rejects with the first failure. */
export async function inFlight(width: number, count: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const workUntilOver = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: width }, workUntilOver));
}
