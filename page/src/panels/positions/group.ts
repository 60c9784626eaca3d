/** Pictures that belong together, and which of the known ways they show. */
import type { Named } from "../../binary";
import type { PositionPicture, PositionsAnswer } from "../../protocol";

export type Flavor =
  | "learned" | "sinusoid" | "buckets" | "alibi" | "rotary" | "shaw" | "relative" | "disentangled" | "terms"
  | "causal" | "full" | "window" | "blocks";

export interface Group {
  flavor: Flavor;
  picture: PositionPicture;
  /** Where it holds: in the picture's own stack, and in others that have the very same. */
  places: Pick<PositionPicture, "stack" | "kind" | "layers">[];
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
    if (!group) found.set(number, (group = { flavor: "full", picture, places: [picture], parts: {} }));
    group.parts[picture.part] = { array: answer.arrays[picture.array], axes: picture.axes };
  }
  const groups: Group[] = [];
  for (const group of found.values()) {
    group.flavor = flavorOf(group.picture, group.parts);
    const same = groups.find((one) => alike(one, group));
    if (same) same.places.push(...group.places);
    else groups.push(group);
  }
  return groups;
}

/** Whether two pictures would show the same: what is computed, not learned, often stands in several stacks. */
function alike(one: Group, other: Group): boolean {
  const names = Object.keys(one.parts);
  return (
    one.flavor === other.flavor &&
    names.length === Object.keys(other.parts).length &&
    JSON.stringify(one.picture.facts) === JSON.stringify(other.picture.facts) &&
    names.every((name) => name in other.parts && equal(one.parts[name].array.values, other.parts[name].array.values))
  );
}

function equal(one: ArrayLike<number>, other: ArrayLike<number>): boolean {
  if (one.length !== other.length) return false;
  for (let n = 0; n < one.length; n++) if (!Object.is(one[n], other[n])) return false;
  return true;
}
