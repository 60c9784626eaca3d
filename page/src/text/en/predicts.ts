import type { What } from "../../protocol";

/** What a model predicts: tokens, labels of tokens, labels of a text, an answer's start and end. */
export const predicts = {
  tab: "Prediction",
  /** Where a prediction is made; of an answer, 1 is its end. */
  where: {
    next: (token: string) => `after “${token}”`,
    masked: (token: string) => `in the place of “${token}”`,
    tag: (token: string) => `of “${token}”`,
    classify: () => "of the text",
    span: (_: string, end: number) => (end ? "of where the answer ends" : "of where the answer starts"),
  } satisfies Record<What, (token: string, end: number) => string> as Record<What, (token: string, end: number) => string>,
  answer: "Answer's",
  ends: { start: "start", end: "end" },
  best: "the most probable",
};
