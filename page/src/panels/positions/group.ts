/** Pictures that belong together, and which of the known ways they show. */
import type { NamedArray } from "../../binary";
import type { PositionPicture, PositionsResponse } from "../../protocol.generated";

export type Flavor =
  | "learned" | "sinusoid" | "buckets" | "alibi" | "rotary" | "shaw" | "relative" | "disentangled" | "terms"
  | "causal" | "full" | "window" | "blocks";

export interface Group {
  flavor: Flavor;
  picture: PositionPicture;
  /** Where it holds: in the picture's own stack, and in others that have the very same. */
  places: Pick<PositionPicture, "stack" | "kind" | "layers">[];
  parts: Record<string, { array: NamedArray; axes: string[] }>;
}

function flavorOf({ kind, parameters }: PositionPicture, parts: Group["parts"]): Flavor {
  if (kind === "table") return parameters.layout === "learned" ? "learned" : "sinusoid";
  if (kind === "bias") return "slopes" in parameters ? "alibi" : "buckets";
  if (kind === "rotary" || kind === "terms") return kind;
  if (kind === "distances") return "keys" in parts ? "shaw" : "sinusoids" in parts ? "relative" : "disentangled";
  if ("size" in parameters || parameters.block != null) return "blocks";
  if (parameters.left != null || Number(parameters.right ?? 0) > 0) return "window";
  return parameters.right === 0 ? "causal" : "full";
}

/** Arrays are named "number.part"; those of one number are one picture. */
export function grouped(response: PositionsResponse): Group[] {
  const found = new Map<string, Group>();
  for (const picture of response.metadata.pictures) {
    const number = picture.array.slice(0, picture.array.indexOf("."));
    let group = found.get(number);
    if (!group) found.set(number, (group = { flavor: "full", picture, places: [picture], parts: {} }));
    group.parts[picture.part] = { array: response.arrays[picture.array], axes: picture.axes };
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
    JSON.stringify(one.picture.parameters) === JSON.stringify(other.picture.parameters) &&
    names.every((name) => name in other.parts && equal(one.parts[name].array.values, other.parts[name].array.values))
  );
}

function equal(one: ArrayLike<number>, other: ArrayLike<number>): boolean {
  if (one.length !== other.length) return false;
  for (let n = 0; n < one.length; n++) if (!Object.is(one[n], other[n])) return false;
  return true;
}
