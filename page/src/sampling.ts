import type { NextRequest } from "./protocol.generated";

/** Sampling options, as in `generate`. */
export type SamplingOptions = Pick<NextRequest, "temperature" | "top_k" | "top_p" | "min_p">;
