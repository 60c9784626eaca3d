import { describe, expect, it } from "vitest";
import type { BeamNode, Edit } from "../protocol.generated";
import { factorOf, partsOf, withFactor } from "../panels/edit/edits";
import { edgesAt, edgesOf, filtered } from "./edges";
import { begin, redo, step, undo } from "./history";
import { layTree, pathTo } from "./tree";

describe("lines", () => {
  const pattern = Float32Array.from([1, 0, 0, 0.7, 0.3, 0, 0.2, 0.5, 0.3]);

  it("keeps weights that are large enough, of the rows and columns that are shown", () => {
    const edges = edgesOf(pattern, 3, [1, 2], [0, 2], 0.25);
    expect([...edges.query]).toEqual([0, 1]);
    expect([...edges.key]).toEqual([0, 1]);
    expect(edges.weight[1]).toBeCloseTo(0.3);
  });

  it("finds the lines of one query and of one key", () => {
    const edges = edgesOf(pattern, 3, [0, 1, 2], [0, 1, 2], 0.1);
    expect(edgesAt(edges, "query", 2).map((n) => edges.key[n])).toEqual([0, 1, 2]);
    expect(edgesAt(edges, "key", 1).map((n) => edges.query[n])).toEqual([1, 2]);
  });

  it("filters a pair of sentences, marks with the sentence they close", () => {
    const sentences = [null, 0, 0, null, 1, 1, null] as (0 | 1 | null)[];
    expect(filtered(sentences, "ab", "query")).toEqual([0, 1, 2, 3]);
    expect(filtered(sentences, "ab", "key")).toEqual([4, 5, 6]);
    expect(filtered(sentences, "all", "key")).toHaveLength(7);
  });
});

describe("beam tree", () => {
  const node = (parent: number | null, step: number, score: number, state: BeamNode["state"] = "kept"): BeamNode => ({ parent, step, token: 0, text: "", logprob: -1, score, state });
  const nodes = [node(null, 0, -1), node(null, 0, -2), node(0, 1, -1.5), node(0, 1, -3, "pruned"), node(1, 1, -2.5), node(2, 2, -1.7)];

  it("puts no two nodes in one place and parents left of their children", () => {
    const { nodes: placed, columns } = layTree(nodes, 5);
    expect(columns).toBe(3);
    expect(new Set(placed.map(({ column, row }) => `${column} ${row}`)).size).toBe(nodes.length);
    for (const { node, column } of placed) if (node.parent !== null) expect(column).toBe(nodes[node.parent].step + 1);
  });

  it("marks the way to the best and leaves out what was pruned if asked", () => {
    expect(pathTo(nodes, 5)).toEqual([0, 2, 5]);
    expect(layTree(nodes, 5).nodes.filter(({ best }) => best).map(({ index }) => index)).toEqual([0, 2, 5]);
    expect(layTree(nodes, 5, false).nodes.some(({ node }) => node.state === "pruned")).toBe(false);
  });
});

describe("edits", () => {
  const z = "decoder.blocks.3.z";

  it("joins heads of one factor and takes them apart again", () => {
    let edits: Edit[] = withFactor([], z, 1, 0);
    edits = withFactor(edits, z, 0, 0);
    expect(edits).toEqual([{ kind: "scale", at: z, heads: [0, 1], factor: 0 }]);
    edits = withFactor(edits, z, 1, 2);
    expect(factorOf(edits, z, 0)).toBe(0);
    expect(factorOf(edits, z, 1)).toBe(2);
    expect(withFactor(withFactor(edits, z, 0, 1), z, 1, 1)).toEqual([]);
  });

  it("knows a tap's name", () => {
    expect(partsOf("decoder.blocks.3.cross.z")).toEqual({ stack: "decoder", layer: 3, what: "cross.z" });
  });

  it("goes back and forth, and forgets the future on a new way", () => {
    const one: Edit[] = [{ kind: "scale", at: z, factor: 0 }];
    let history = step(begin(), one);
    expect(step(history, one)).toBe(history);
    history = undo(history);
    expect(history.now).toEqual([]);
    expect(redo(history).now).toEqual(one);
    expect(step(history, [{ kind: "scale", at: z, factor: 2 }]).future).toEqual([]);
  });
});
