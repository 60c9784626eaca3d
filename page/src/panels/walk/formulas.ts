/** The formula of every step, with this model's facts. */
import { ink, over, root, sub, sup, word, type Formula } from "../../parts/formula";
import type { LayerDescription, StackDescription, WalkStep } from "../../protocol.generated";
import { number } from "../../format";
import { plainKind, type Kind } from "./path";

const Q = ink("query", "Q");
const K = ink("key", "K");
const V = ink("value", "V");

/** The letter of a step's result in formulas and pictures. */
const SYMBOLS: Record<Kind, Formula> = {
  tokens: "t",
  embed_token: "E",
  embed_position: "P",
  embed_type: "T",
  embed_norm: "X",
  embed: "X",
  norm: "N",
  q: Q,
  k: K,
  v: V,
  rotate_q: ink("query", sup("Q", "′")),
  rotate_k: ink("key", sup("K", "′")),
  dot: "S",
  scale: sup("S", "′"),
  cap: sup("S", "′"),
  bias: "B",
  mask: "M",
  softmax: "A",
  weighted: "Z",
  joined: "J",
  projected: "O",
  residual: sup("X", "′"),
  norm_ffn: "N",
  ffn_gate: "G",
  ffn_up: "U",
  ffn_act: "F",
  ffn_down: "D",
  residual_ffn: sup("X", "″"),
  norm_final: "H",
  stream: "X",
  memory: ink("accent", "H"),
  embed_project: "X",
  logits: "L",
  probabilities: "p",
  choice: "t",
};

/** After cross-attention there is one more sum in a block. */
export function symbolOf({ kind }: WalkStep, layer: LayerDescription | undefined): Formula {
  if (kind === "cross_residual") return sup("X", "″");
  if (kind === "residual_ffn" && layer?.cross) return sup("X", "‴");
  return SYMBOLS[plainKind(kind)];
}

function norm(of: Formula, { norm, norm_bias }: WalkStep["parameters"]): Formula {
  if (norm === null) return of;
  if (norm === "rms") return [over(of, root([word("mean"), "(", sup(of, "2"), ")", "+", "ε"])), "⊙", "g"];
  return [over([of, "−", "μ"], "σ"), "⊙", "g", ...(norm_bias === false ? [] : ["+", "b"])];
}

function linear(of: Formula, weight: Formula, { bias }: WalkStep["parameters"]): Formula {
  return [of, weight, ...(bias === false ? [] : ["+", "b"])];
}

export interface FormulaFacts {
  step: WalkStep;
  stack: StackDescription;
  layer: LayerDescription | undefined;
}

/** The right-hand side; the left is the step's symbol. */
export function formulaOf({ step, stack, layer }: FormulaFacts): Formula | null {
  const kind = plainKind(step.kind);
  const cross = step.kind.startsWith("cross_");
  const attention = cross ? layer?.cross : layer?.attention;
  const source = cross && (kind === "k" || kind === "v") ? ink("accent", "H") : reads(step);
  switch (kind) {
    case "tokens":
    case "choice":
    case "stream":
    case "memory":
      return null;
    case "embed_token":
      return [sub("W", "E"), "[", "t", "]", ...(stack.embed.scale !== 1 ? ["×", number(stack.embed.scale)] : [])];
    case "embed_position":
      return stack.embed.position?.kind === "sinusoid" ? [word("sin, cos"), "(", over(word("pos"), sup("10000", "2i/d")), ")"] : [sub("W", "P"), "[", word("pos"), "]"];
    case "embed_type":
      return [sub("W", "T"), "[", word("sentence"), "]"];
    case "embed_norm":
      return norm("X", step.parameters);
    case "embed_project":
      return ["X", "W"];
    case "embed":
      return ["E", ...(step.inputs.some((id) => id.includes("position")) ? ["+", "P"] : []), ...(step.inputs.some((id) => id.includes("type")) ? ["+", "T"] : [])];
    case "norm":
    case "norm_ffn":
      return norm("X", step.parameters);
    case "norm_final":
      return norm("X", step.parameters);
    case "q":
      return linear(source, sub("W", "Q"), step.parameters);
    case "k":
      return linear(source, sub("W", "K"), step.parameters);
    case "v":
      return linear(source, sub("W", "V"), step.parameters);
    case "rotate_q":
      return [Q, word(" turned by "), word("position"), "⋅", "θ"];
    case "rotate_k":
      return [K, word(" turned by "), word("position"), "⋅", "θ"];
    case "dot":
      return attention?.score === "additive" ? [sup("v", "⊤"), word("tanh"), "(", Q, "+", K, ")"] : [Q, sup(K, "⊤")];
    case "scale":
      return isRoot(attention) ? over([Q, sup(K, "⊤")], root(["d", "=", String(attention!.head_dim)])) : ["S", "×", number(Number(step.parameters.scale ?? attention?.scale ?? 1))];
    case "cap":
      return ["c", word("tanh"), "(", "S", "/", "c", ")"];
    case "bias":
      return null;
    case "mask":
      return [sup("S", "′"), ...(step.inputs.length > 1 ? ["+", "B"] : []), "+", word("mask"), "(", "0", word(" or "), "−∞", ")"];
    case "softmax":
      return [word("softmax"), "(", "M", ")", "=", over(sup("e", sub("M", "ij")), ["∑", sup("e", sub("M", "ik"))])];
    case "weighted":
      return ["A", V];
    case "joined":
      return ["[", sub("Z", "0"), "|", sub("Z", "1"), "|", "…", "]"];
    case "projected":
      return linear("J", sub("W", "O"), step.parameters);
    case "residual":
      return after([cross ? sup("X", "′") : "X", "+", "O"], layer);
    case "ffn_gate":
      return linear("N", sub("W", word("gate")), step.parameters);
    case "ffn_up":
      return linear(layer?.placement === "post" ? "X" : "N", sub("W", "1"), step.parameters);
    case "ffn_act":
      return layer?.ffn?.gated ? [word(activation(layer)), "(", "G", ")", "⊙", "U"] : [word(activation(layer)), "(", "U", ")"];
    case "ffn_down":
      return linear("F", sub("W", "2"), step.parameters);
    case "residual_ffn":
      return after([sup("X", layer?.cross ? "″" : "′"), "+", "D"], layer);
    case "logits":
      return step.axes.includes("token") ? ["H", sup(sub("W", "E"), "⊤")] : labelLogits(step.parameters);
    case "probabilities":
      return [step.parameters.several ? "σ" : word("softmax"), "(", "L", ")"];
  }
}

/** Of the vector of a text, or of every token's. */
function labelLogits({ pick, transform }: WalkStep["parameters"]): Formula {
  const read: Formula = pick === "each" ? "H" : sub("H", word(String(pick)));
  return [...(transform ? [word("dense"), "(", read, ")"] : [read]), sub("W", word("head")), "+", "b"];
}

/** A part reads the normed stream, or in post-norm models the stream itself. */
function reads(step: WalkStep): Formula {
  return step.inputs.some((id) => id.includes("norm")) ? "N" : "X";
}

function after(sum: Formula, layer: LayerDescription | undefined): Formula {
  return layer?.placement === "post" ? [word("norm"), "(", sum, ")"] : sum;
}

function isRoot(attention: LayerDescription["attention"] | undefined): boolean {
  return !!attention && Math.abs(attention.scale * Math.sqrt(attention.head_dim) - 1) < 1e-6;
}

export function activation(layer: LayerDescription | undefined): string {
  return (layer?.ffn?.activation ?? "").replace(/_tanh|_fast|_new/, "").replace("gelu", "GELU").replace("relu", "ReLU").replace("silu", "SiLU");
}
