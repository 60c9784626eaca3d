/** Formulas as data, set in MathML by Formula.svelte. */

/** Which of the colors of the walk a letter wears. */
export type Ink = "query" | "key" | "value" | "accent";

export type Math =
  | string // a letter, a number or an operator
  | Math[] // side by side
  | { over: Math; under: Math } // a fraction
  | { base: Math; sup?: Math; sub?: Math }
  | { root: Math }
  | { word: string } // upright, e.g. softmax
  | { ink: Ink; of: Math };

export const over = (top: Math, under: Math): Math => ({ over: top, under });
export const sup = (base: Math, sup: Math): Math => ({ base, sup });
export const sub = (base: Math, sub: Math): Math => ({ base, sub });
export const root = (of: Math): Math => ({ root: of });
export const word = (text: string): Math => ({ word: text });
export const ink = (color: Ink, of: Math): Math => ({ ink: color, of });
