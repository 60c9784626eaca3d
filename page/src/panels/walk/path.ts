/** The way through the model as a list of stops, and which of them belong together. */
import type { StackName, StepKind, WalkStep } from "../../protocol.generated";

export type Part = "embedding" | "attention" | "cross" | "ffn" | "stack" | "prediction";

/** Three pictures that no single array makes: all of the model, one block, and a token on its way through the blocks. */
export const WHOLES = ["model", "block", "stack"] as const;
export type Whole = (typeof WHOLES)[number];

export interface Stop {
  id: string;
  part: Part;
  /** Whose rows are the tokens of the picture. */
  stack: StackName;
  whole?: Whole;
  step?: WalkStep;
}

/** A kind without the `cross_` in front: both attentions take the same steps. */
export type Kind = Exclude<StepKind, `cross_${string}`>;

export function plainKind(kind: StepKind): Kind {
  return kind.replace(/^cross_/, "") as Kind;
}

export function partOf(kind: StepKind): Part {
  if (kind === "tokens" || kind.startsWith("embed")) return "embedding";
  if (kind === "memory") return "cross";
  if (kind.startsWith("cross_")) return "cross";
  if (kind === "norm_ffn" || kind === "residual_ffn" || kind.startsWith("ffn")) return "ffn";
  if (["norm_final", "logits", "probabilities", "choice"].includes(kind)) return "prediction";
  return "attention";
}

/** Keys and values of cross-attention are made of what the encoder read. */
export function rowsOf(step: WalkStep): StackName {
  const kind = plainKind(step.kind);
  const reads = step.kind.startsWith("cross_") && (kind === "k" || kind === "v" || kind === "rotate_k");
  return reads ? "encoder" : step.stack;
}

/** A norm that is none, and a sum of one thing: nothing happens there. */
function isNothing({ kind, parameters, inputs }: WalkStep): boolean {
  if (kind === "embed") return inputs.length === 1 && inputs[0].endsWith("embed_token");
  return ["norm", "cross_norm", "norm_ffn"].includes(kind) && parameters.norm === null;
}

/** Steps at which something happens; who reads one of the others reads what that would have read. */
export function withoutIdentities(steps: readonly WalkStep[]): WalkStep[] {
  const bare = new Map(steps.filter(isNothing).map(({ id, inputs }) => [id, inputs]));
  const real = (id: string): string[] => bare.get(id)?.flatMap(real) ?? [id];
  return steps.filter(({ id }) => !bare.has(id)).map((step) => ({ ...step, inputs: step.inputs.flatMap(real) }));
}

/** A stop is named by its step's kind, so that the address means the same step in every layer and stack. */
export function stopsOf(steps: readonly WalkStep[], stack: StackName): Stop[] {
  const stops: Stop[] = [{ id: "model", part: "embedding", stack, whole: "model" }];
  let inside = false;
  for (const step of steps) {
    const own = step.layer !== null || step.kind === "memory";
    if (own && !inside) stops.push({ id: "block", part: "attention", stack, whole: "block" });
    if (!own && inside) stops.push({ id: "stack", part: "stack", stack, whole: "stack" });
    inside = own;
    stops.push({ id: step.kind, part: partOf(step.kind), stack: rowsOf(step), step });
  }
  if (inside) stops.push({ id: "stack", part: "stack", stack, whole: "stack" });
  return stops;
}

/** One thing further out: from a step of a block to the block, from everything else to the model. */
export function outward(stop: Stop): Whole | null {
  if (stop.whole === "model") return null;
  return stop.step && (stop.step.layer !== null || stop.step.kind === "memory") ? "block" : "model";
}

const HEADS = ["head", "key head"];

/** The last axis is what a row holds; heads in front are chosen, not drawn. */
export function drawnShape({ shape, axes }: WalkStep): [number, number] {
  const sizes = shape.filter((_, axis) => !HEADS.includes(axes[axis]));
  return sizes.length >= 2 ? [sizes[0], sizes[1]] : [1, sizes[0] ?? 0];
}

/** Which head of an array is drawn: heads may share keys and values. */
export function headOf(step: WalkStep, head: number): Record<string, number> {
  const axis = step.axes.findIndex((name) => HEADS.includes(name));
  if (axis < 0) return {};
  const shared = step.axes[axis] === "key head" ? Number(step.parameters.key_head ?? head) : head;
  return { [step.axes[axis]]: Math.min(shared, step.shape[axis] - 1) };
}

/** Shares and scores: a row of queries by a column of keys. */
export function isPairs(step: WalkStep): boolean {
  return step.axes.at(-1) === "key";
}
