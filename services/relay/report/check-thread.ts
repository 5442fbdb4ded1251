import { hash } from "node:crypto";
import { parentPort, workerData } from "node:worker_threads";
import { CatalogError } from "#shared/catalog/document.ts";
import { createRestrict } from "#shared/catalog/restrict.ts";
import { tellAddress, tellModel } from "./state.ts";
import { checkCandidate } from "../catalog/catalog.ts";
import type { CandidateOrder, CandidateVerdict } from "./check-candidate.ts";

const maxProblems = 200;
const maxReasonLength = 500;

/** The thread of one check: reads the catalog that it was started with, tells the verdict and ends. */
function check({ text, set, known, offersVideos, restriction }: CandidateOrder): CandidateVerdict {
  try {
    const restrict = restriction && createRestrict(restriction);
    const { catalog, unset } = checkCandidate(text, set, { known, restrict });
    return {
      unsetVariables: unset,
      catalog: {
        contentHash: hash("sha256", text),
        isMaintenance: catalog.isMaintenance,
        models: [...catalog.models.values()].map((model) => tellModel(model, offersVideos)),
        upstreams: catalog.upstreams.map(tellAddress),
      },
    };
  } catch (error) {
    if (!(error instanceof CatalogError)) throw error;
    const problems = error.problems.slice(0, maxProblems);
    return { problems: problems.map(({ line, reason }) => ({ line, reason: reason.slice(0, maxReasonLength) })) };
  }
}

parentPort?.postMessage(check(workerData as CandidateOrder));
