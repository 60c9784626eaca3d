/** Edits as a grid of switches sees them: how much of each head and layer is left. */
import type { AttentionType, Edit, StackName } from "../../protocol.generated";
import type { Structure } from "../../session.svelte";

type Scale = Extract<Edit, { kind: "scale" }>;

export function stackOf(attentionType: AttentionType): StackName {
  return attentionType === "cross" ? "decoder" : attentionType;
}

/** The name of a layer's tap; of cross-attention where that is looked at. */
export function tap(attentionType: AttentionType, layer: number, what: "z" | "attn_out" | "ffn_out"): string {
  const inner = attentionType === "cross" && what !== "ffn_out" ? `cross.${what}` : what;
  return `${stackOf(attentionType)}.blocks.${layer}.${inner}`;
}

function scales(edit: Edit, at: string): edit is Scale {
  return edit.kind === "scale" && edit.at === at && !edit.positions;
}

/** What is left of a head (or, without a head, of the whole tap): 1 is all of it. */
export function factorOf(edits: readonly Edit[], at: string, head: number | null = null): number {
  const found = edits.filter((edit): edit is Scale => scales(edit, at) && (head === null ? !edit.heads : (edit.heads?.includes(head) ?? false)));
  return found.reduce((product, { factor }) => product * factor, 1);
}

/** The edits with this head (or the whole tap) at another factor. Heads of one layer and factor are one edit. */
export function withFactor(edits: readonly Edit[], at: string, head: number | null, factor: number): Edit[] {
  if (head === null) {
    const others = edits.filter((edit) => !(scales(edit, at) && !edit.heads));
    return factor === 1 ? others : [...others, { kind: "scale", at, factor }];
  }
  const others = edits.flatMap((edit): Edit[] => {
    if (!scales(edit, at) || !edit.heads?.includes(head)) return [edit];
    const heads = edit.heads.filter((other) => other !== head);
    return heads.length > 0 ? [{ ...edit, heads }] : [];
  });
  if (factor === 1) return others;
  const mate = others.findIndex((edit) => scales(edit, at) && edit.heads && edit.factor === factor);
  if (mate < 0) return [...others, { kind: "scale", at, heads: [head], factor }];
  const joined = others[mate] as Scale;
  const heads = [...joined.heads!, head].sort((a, b) => a - b);
  return others.map((edit, index) => (index === mate ? { ...joined, heads } : edit));
}

/** Stack, layer and rest of a tap's name: "decoder.blocks.3.cross.z". */
export function partsOf(at: string): { stack: StackName; layer: number | null; what: string } {
  const [stack, , layer, ...what] = at.split(".");
  return { stack: stack as StackName, layer: layer === undefined ? null : Number(layer), what: what.join(".") };
}

/** What an address says, if it is a list of edits that this model has taps for. */
export function fromAddress(stored: string | undefined, structure: Structure): Edit[] {
  if (!stored) return [];
  try {
    const edits = JSON.parse(stored) as Edit[];
    return Array.isArray(edits) && edits.every(({ at }) => partsOf(at).stack in structure.stacks) ? edits : [];
  } catch {
    return [];
  }
}
