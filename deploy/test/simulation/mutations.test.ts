import { dayMs } from "#shared/process/clock.ts";
import { mutations } from "./mutations.ts";
import { seeMutations } from "./see-mutations.ts";

// Each day another fifth of them; mutations.long.test.ts has all.
const days = 5;
const today = Math.floor(Date.now() / dayMs) % days;

seeMutations(mutations.filter((_, index) => index % days === today));
