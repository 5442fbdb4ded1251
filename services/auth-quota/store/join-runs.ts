/** What a run answers: an answer to each operation, in their order. */
type Outcome<Answer> = { answers: Answer[]; recalledLeases: string[] };

type RunFor<Operation, Answer> = (relaySession: string, operations: readonly Operation[]) => Promise<Outcome<Answer>>;

type Waiting<Operation, Answer> = {
  operations: readonly Operation[];
  answer: PromiseWithResolvers<Outcome<Answer>>;
};

/** What a relay process may have in one run of the script. */
const maxOperations = 512;

/** As many of those that wait, in their order, as go into one run. */
function takeNext<One extends { operations: readonly unknown[] }>(waiting: One[]): One[] {
  let operations = 0;
  const next = waiting.findIndex((one, at) => {
    operations += one.operations.length;
    return at > 0 && operations > maxOperations;
  });
  return waiting.splice(0, next === -1 ? waiting.length : next);
}

/**
 * Joins what comes for a relay process while a run for it is under way into one run behind that: a run costs Redis
 * twice as much as what it does for one call (the figures are in deploy/bench). A batch that comes alone goes at once,
 * and all keep their order. A run that fails fails all batches in it.
 */
export function joinRuns<Operation, Answer>(run: RunFor<Operation, Answer>): RunFor<Operation, Answer> {
  /** By relay process; there is none when nothing is under way for it. */
  const queues = new Map<string, Waiting<Operation, Answer>[]>();

  const work = async (relaySession: string, queue: Waiting<Operation, Answer>[]): Promise<void> => {
    while (queue.length > 0) {
      const joined = takeNext(queue);
      const operations = joined.flatMap((one) => one.operations);
      try {
        const { answers, recalledLeases } = await run(relaySession, operations);
        let at = 0;
        for (const one of joined) {
          const end = at + one.operations.length;
          one.answer.resolve({ answers: answers.slice(at, end), recalledLeases });
          at = end;
        }
      } catch (error) {
        for (const { answer } of joined) answer.reject(error);
      }
    }
    queues.delete(relaySession);
  };

  return (relaySession, operations) => {
    // What is no relay's has nobody whose order is to be kept.
    if (relaySession === "") return run(relaySession, operations);
    const answer = Promise.withResolvers<Outcome<Answer>>();
    const queue = queues.get(relaySession);
    if (queue) queue.push({ operations, answer });
    else {
      const begun = [{ operations, answer }];
      queues.set(relaySession, begun);
      void work(relaySession, begun);
    }
    return answer.promise;
  };
}
