import { mutations } from "./mutations.ts";
import { seeMutations } from "./see-mutations.ts";

seeMutations(mutations);
