/** The stops of the guided tour: where each leads, and what it points at. */
import type { en } from "./tour.texts";

export interface TourStop {
  key: keyof (typeof en)["stops"];
  /** A stop of the walk. */
  at: string;
  /** What is pointed at, by its `data-tour`. */
  points: string;
}

export const TOUR: readonly TourStop[] = [
  { key: "welcome", at: "model", points: "model" },
  { key: "tokens", at: "tokens", points: "picture" },
  { key: "embed", at: "embed_token", points: "picture" },
  { key: "block", at: "block", points: "attention" },
  { key: "q", at: "q", points: "picture" },
  { key: "dot", at: "dot", points: "picture" },
  { key: "softmax", at: "softmax", points: "picture" },
  { key: "residual", at: "residual", points: "picture" },
  { key: "ffn_act", at: "ffn_act", points: "picture" },
  { key: "stack", at: "stack", points: "picture" },
  { key: "choice", at: "choice", points: "picture" },
  { key: "end", at: "model", points: "head" },
];

const SEEN = "glassformer.tour";

export function seen(): boolean {
  return localStorage.getItem(SEEN) !== null;
}

export function remember(): void {
  localStorage.setItem(SEEN, "seen");
}
