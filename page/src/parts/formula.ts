/** Formulas as data, set in MathML by Formula.svelte. */

/** Which of the colors of the walk a letter wears. */
export type Ink = "query" | "key" | "value" | "accent";

export type Formula =
  | string // a letter, a number or an operator
  | Formula[] // side by side
  | { over: Formula; under: Formula } // a fraction
  | { base: Formula; sup?: Formula; sub?: Formula }
  | { root: Formula }
  | { word: string } // upright, e.g. softmax
  | { ink: Ink; of: Formula };

export const over = (top: Formula, under: Formula): Formula => ({ over: top, under });
export const sup = (base: Formula, sup: Formula): Formula => ({ base, sup });
export const sub = (base: Formula, sub: Formula): Formula => ({ base, sub });
export const root = (of: Formula): Formula => ({ root: of });
export const word = (text: string): Formula => ({ word: text });
export const ink = (color: Ink, of: Formula): Formula => ({ ink: color, of });
