/** A step as an equation of pictures: what goes in, what is done, what comes out. */
import { sub, word, type Formula } from "../../parts/formula";
import type { StackDescription, WalkStep } from "../../protocol.generated";
import { number } from "../../format";
import { drawnShape, plainKind } from "./path";

export type Term =
  | { type: "array"; step: WalkStep; turned?: boolean; result?: boolean }
  | { type: "weight"; symbol: Formula; rows: number; columns: number }
  | { type: "sign"; text: string }
  /** Something done to every number or row, with its name on the arrow. */
  | { type: "arrow"; text: string };

export function equationOf(step: WalkStep, find: (id: string) => WalkStep | undefined, stack: StackDescription, act: string): Term[] {
  const inputs = step.inputs.map(find).filter((one): one is WalkStep => one !== undefined && one.array !== null);
  const result: Term = { type: "array", step, result: true };
  const sign = (text: string): Term => ({ type: "sign", text });
  const arrow = (text: string): Term => ({ type: "arrow", text });
  const array = (one: WalkStep, turned = false): Term => ({ type: "array", step: one, turned });
  const joined = (text: string): Term[] =>
    inputs.flatMap((one, index) => (index ? [sign(text), array(one)] : [array(one)]));
  const times = (symbol: Formula): Term[] => {
    const [first] = inputs;
    const into = first ? drawnShape(first)[1] : stack.width;
    return [...(first ? [array(first), sign("×")] : []), { type: "weight", symbol, rows: into, columns: drawnShape(step)[1] }, sign("="), result];
  };
  const through = (name: string): Term[] => [...inputs.slice(0, 1).map((one) => array(one)), arrow(name), result];

  switch (plainKind(step.kind)) {
    case "embed_token":
      return [{ type: "weight", symbol: sub("W", "E"), rows: stack.vocabulary, columns: stack.width }, arrow("t"), result];
    case "embed":
    case "residual":
    case "residual_ffn":
      return inputs.length > 1 ? [...joined("+"), sign("="), result] : [result];
    case "norm":
    case "norm_ffn":
    case "norm_final":
    case "embed_norm":
      return through("norm");
    case "q":
      return times(sub("W", "Q"));
    case "k":
      return times(sub("W", "K"));
    case "v":
      return times(sub("W", "V"));
    case "rotate_q":
    case "rotate_k":
      return through("↻");
    case "dot":
      return inputs.length === 2 ? [array(inputs[0]), sign("×"), array(inputs[1], true), sign("="), result] : [result];
    case "scale":
      return through(`× ${number(Number(step.parameters.scale ?? 1))}`);
    case "cap":
      return through("cap");
    case "mask":
      return [...joined("+"), arrow("mask"), result];
    case "embed_project":
      return times("W");
    case "softmax":
    case "probabilities":
      return through("softmax");
    case "weighted":
      return inputs.length === 2 ? [...joined("×"), sign("="), result] : [result];
    case "projected":
      return times(sub("W", "O"));
    case "ffn_gate":
      return times(sub("W", word("gate")));
    case "ffn_up":
      return times(sub("W", "1"));
    case "ffn_act":
      return inputs.length > 1 ? [array(inputs[0]), arrow(act), sign("⊙"), array(inputs[1]), sign("="), result] : through(act);
    case "ffn_down":
      return times(sub("W", "2"));
    case "logits":
      return times(sub("W", word("vocab")));
    default:
      return [result];
  }
}
