/** Pictures that belong together, and which of the known ways they show. */
import type { Named } from "../../binary";
import type { PositionPicture, PositionsAnswer } from "../../protocol";

export type Flavor =
  | "learned" | "sinusoid" | "buckets" | "alibi" | "rotary" | "shaw" | "relative" | "disentangled" | "terms"
  | "causal" | "full" | "window" | "blocks";

export interface Group {
  flavor: Flavor;
  picture: PositionPicture;
  parts: Record<string, { array: Named; axes: string[] }>;
}

function flavorOf({ kind, facts }: PositionPicture, parts: Group["parts"]): Flavor {
  if (kind === "table") return facts.layout === "learned" ? "learned" : "sinusoid";
  if (kind === "bias") return "slopes" in facts ? "alibi" : "buckets";
  if (kind === "rotary" || kind === "terms") return kind;
  if (kind === "distances") return "keys" in parts ? "shaw" : "sinusoids" in parts ? "relative" : "disentangled";
  if ("size" in facts || facts.block != null) return "blocks";
  if (facts.left != null || Number(facts.right ?? 0) > 0) return "window";
  return facts.right === 0 ? "causal" : "full";
}

/** Arrays are named "number.part"; those of one number are one picture. */
export function grouped(answer: PositionsAnswer): Group[] {
  const found = new Map<string, Group>();
  for (const picture of answer.facts.pictures) {
    const number = picture.array.slice(0, picture.array.indexOf("."));
    let group = found.get(number);
    if (!group) found.set(number, (group = { flavor: "full", picture, parts: {} }));
    group.parts[picture.part] = { array: answer.arrays[picture.array], axes: picture.axes };
  }
  for (const group of found.values()) group.flavor = flavorOf(group.picture, group.parts);
  return [...found.values()];
}
