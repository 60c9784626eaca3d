/**
 * What the page asks and what the server answers. The server (glassformer/page/) is the only place
 * where these questions are answered, and glassformer/inside/ the only place where anything is computed.
 *
 * Every question is `POST /api/<question>` with a JSON object as its body (content type application/json).
 * An answer is JSON, or a `Packed` body (see binary.ts) where numbers are many: the type says which.
 * An error is `{"error": "one clear sentence"}` with a 4xx status; the page shows it and goes on.
 *
 * Words: a `position` is an index into a stack's tokens, a `token` an id of the vocabulary; a `layer` is a
 * depth of execution (ALBERT runs one block twelve times: twelve layers). Probabilities are from 0 to 1,
 * log-probabilities natural. Numbers that JSON does not know (infinities) come as null.
 */
import type { Packed } from "./binary";

export type StackName = "encoder" | "decoder";
/** Which attention: within the encoder, within the decoder, or from the decoder to the encoder. */
export type Sight = "encoder" | "decoder" | "cross";

// --- what every question about a run has ---------------------------------------------------------

export interface Run {
  /** An id of `models`, or of one of its checkpoints. */
  model: string;
  text: string;
  /** A second sentence, where `Structure.reads.pair`. */
  pair?: string;
  /** What the decoder of an encoder-decoder has written; left out: what the model itself writes. */
  target?: string;
  /** The head whose outputs are asked about, a name of `Structure.outputs`; left out: the first. */
  output?: string;
  edits?: Edit[];
}

/** A list applies in order. `at` is the name of a tap (glassformer/core/hooks.py), shell patterns allowed. */
export type Edit =
  /** Heads off: at "decoder.blocks.3.z" with factor 0. A layer off: attn_out (and cross.attn_out) and ffn_out. */
  | { kind: "scale"; at: string; heads?: number[] | null; positions?: number[] | null; factor: number }
  | { kind: "add"; at: string; vector: number[]; positions?: number[] | null; factor?: number }
  /** What lies along the vector is taken away. */
  | { kind: "remove"; at: string; vector: number[]; positions?: number[] | null; factor?: number }
  | { kind: "replace"; at: string; vector: number[]; heads?: number[] | null; positions?: number[] | null }
  /** Takes what passes there when the model reads another text. Positions are pairs [here, there]; null: as they stand. */
  | { kind: "patch"; at: string; from: string; positions?: [number, number][] | null; heads?: number[] | null }
  /** Steers from one text to another: adds factor * (mean at `at` over `toward` - mean over `away`). */
  | { kind: "steer"; at: string; toward: string; away: string; positions?: number[] | null; factor: number };

// --- models --------------------------------------------------------------------------------------

export interface ModelsQuestion {} // eslint-disable-line @typescript-eslint/no-empty-object-type

export interface ModelsAnswer {
  models: ModelEntry[];
  /** What the page starts with where the address bar says nothing; of the first model. */
  start: { model: string; text: string; pair?: string; target?: string; output?: string };
  version: string;
}

export type ModelKind = "decoder" | "encoder" | "encoder-decoder";

export interface ModelEntry {
  id: string;
  /** For people: a folder's last part, or a built-in model's name. */
  name: string;
  kind: ModelKind;
  architecture: string;
  parameters: number;
  /** Texts worth looking at with this model, or with one of its kind. */
  examples: Example[];
  /** Of a run folder: models in the order of their steps; `id` above is the last of them. */
  checkpoints: Checkpoint[];
}

export interface Example {
  text: string;
  pair?: string;
  target?: string;
}

export interface Checkpoint {
  id: string;
  step: number;
  /** "best" and "model" (the end of the run) are named; others go by their step alone. */
  name: string | null;
  /** Loss at this step, where the run folder has one. */
  loss: number | null;
}

// --- structure: what the model is made of --------------------------------------------------------

export interface StructureQuestion {
  model: string;
}

export interface StructureAnswer {
  model: string;
  kind: ModelKind;
  architecture: string;
  parameters: number;
  reads: { pair: boolean; target: boolean };
  /** Which attentions there are to look at; empty for a model without attention. */
  sights: Sight[];
  stacks: Partial<Record<StackName, StackFacts>>;
  /** The stack whose output the heads read. */
  last: StackName;
  heads: HeadFacts[];
  /** Of each head that predicts something; of a model that predicts nothing, one without a name. */
  outputs: Output[];
  tie: [string, string][];
}

/** What there is to ask about the outputs of a head. */
export interface Output {
  head: string | null;
  predicts: Predicts;
  /** Whether a tuned lens for it lies in the model's folder (`glassformer lens`): lens and lens_cell may ask for it. */
  tuned: boolean;
  /** Whether it writes: beams, step and continue are there. */
  writes: boolean;
  /** Id of the mask token, for encoders that fill gaps; and how it is typed. */
  mask: { token: number; text: string } | null;
}

/** A model, and the output of it that is looked at. */
export type Structure = StructureAnswer & Output;

/** What a model predicts is rows, each a choice among outcomes (glassformer/inside/attribute/predicted.py):
 *
 * | what         | a row is                         | outcomes                 |
 * |--------------|----------------------------------|--------------------------|
 * | next, masked | a position: what comes or stands | tokens of the vocabulary |
 * | tag          | a position                       | labels                   |
 * | classify     | the whole text                   | labels                   |
 * | span         | 0: an answer's start, 1: its end | positions                |
 *
 * Wherever a question about a prediction has a `position`, that is the row (of a whole text it is not looked at), and
 * a `token` is the number of an outcome. */
export type What = "next" | "masked" | "tag" | "classify" | "span";

export interface Predicts {
  /** Null: nothing, and `why` says so. There is then no next, lens, contributions, edit. */
  what: What | null;
  why: string | null;
  /** The names of outcomes, where these are labels. */
  labels: string[];
  /** Each label holds or not by itself: probabilities do not add up to one. */
  several: boolean;
  /** The logit is a number to say (a regression): there are no probabilities. */
  number: boolean;
  /** Of a span: 2, or 1 where it is the start alone that every token can be. */
  ends: number;
  /** Whether there is a logit lens: what the head says at a position depends on the stream there alone. */
  lens: boolean;
}

export interface StackFacts {
  width: number;
  vocabulary: number;
  /** Most tokens that can be read; null: no limit. */
  context: number | null;
  embed: {
    scale: number;
    position: PositionFacts | null;
    segments: number;
    norm: NormFacts | null;
    factor: number | null;
  };
  layers: LayerFacts[];
  final_norm: NormFacts | null;
}

export interface NormFacts {
  kind: "layer" | "rms" | "batch";
  eps: number;
  bias: boolean;
}

export interface AttentionFacts {
  heads: number;
  key_heads: number;
  head_dim: number;
  /** What scores are multiplied by. */
  scale: number;
  softcap: number | null;
  qk_norm: boolean;
  score: "dot" | "additive";
}

export interface LayerFacts {
  /** Which block of weights runs at this depth. */
  block: number;
  kind: "attention" | "recurrent" | "convolutional" | "hop";
  /** All below are null where kind is not "attention". */
  attention: AttentionFacts | null;
  cross: AttentionFacts | null;
  ffn: { width: number; activation: string; gated: boolean } | null;
  norm: NormFacts | null;
  placement: "pre" | "post" | "sandwich" | null;
  residual: "serial" | "parallel" | "parallel_shared_norm" | null;
  position: PositionFacts | null;
  pattern: PatternFacts | null;
}

/** Fields beyond `kind` are those of glassformer/spec/positions.py, for captions. */
export interface PositionFacts {
  kind: "learned" | "sinusoid" | "rotary" | "buckets" | "alibi" | "shaw" | "disentangled" | "relative";
  [field: string]: unknown;
}

export interface PatternFacts {
  kind: "full" | "causal" | "window" | "blocks";
  left: number | null;
  right: number | null;
  dilation: number;
  block: number | null;
  /** BigBird's blocks: how many at random, and up to how many tokens a text is seen whole. */
  random: number | null;
  whole: number | null;
}

export interface HeadFacts {
  name: string;
  /** lm, classify, tag, span, choose, pooler */
  kind: string;
  outputs: number | null;
  labels: string[];
}

// --- read: the text as tokens --------------------------------------------------------------------

export type ReadQuestion = Run;

export interface ReadAnswer {
  encoder: Token[] | null;
  decoder: Token[] | null;
  /** Whether the target was written by the model, and what it is as text. */
  target: { text: string; written: boolean } | null;
}

export interface Token {
  id: number;
  /** As it stands in the text, spaces included; a special token as the vocabulary writes it. */
  text: string;
  /** As the vocabulary writes it ("Ġday", "##ing"). */
  piece: string;
  special: boolean;
  /** 0 or 1 of a pair, null for what stands in neither. */
  sentence: 0 | 1 | null;
}

// --- array: any tensor, in the piece that is needed ----------------------------------------------

export interface ArrayQuestion extends Run {
  /** A tap's name ("decoder.blocks.3.q"), one of the walk's (`WalkStep.array`), or a parameter's. Never with a batch axis. */
  name: string;
  /** By axis name: an index (the axis goes away) or [from, to). Axes: position, head, "key head", query, key, dim, width,
   * neuron, token, out, in. */
  at?: Record<string, number | [number, number]>;
  /** At most so many entries along these axes: means of neighbors (`absmax` keeps the largest by size). */
  shrink?: Record<string, number>;
  shrink_by?: "mean" | "max" | "absmax";
  dtype?: "float16" | "float32";
}
/** Arrays: `array`. Facts: what it is before it was cut. */
export type ArrayAnswer = Packed<{ name: string; shape: number[]; axes: string[]; min: number; max: number }, "array">;

// --- vocabulary: tokens that begin with what was typed -------------------------------------------

export interface VocabularyQuestion {
  model: string;
  begins: string;
  /** Default 20, at most 200; the shortest come first. */
  count?: number;
}
export interface VocabularyAnswer {
  tokens: { token: number; text: string; piece: string }[];
}

// --- attention -----------------------------------------------------------------------------------

export type AttentionQuestion = Run & { sight: Sight } & (
    | { view: "head"; layer: number; head: number }
    /** All heads of a layer, or those named; with `size`, shrunk to at most size x size. */
    | { view: "layer"; layer: number; heads?: number[]; size?: number }
    /** What one query sees in all heads of a layer. */
    | { view: "row"; layer: number; query: number }
    /** All layers and heads, shrunk to thumbnails of at most size x size (default 32). Layers from `from` to
     * before `to` if given, so that a page can ask piece by piece; of some queries and keys, [from, to), if given. */
    | { view: "model"; size?: number; from?: number; to?: number; queries?: [number, number]; keys?: [number, number] }
    | { view: "neuron"; layer: number; head: number; query: number }
  );

export interface SightFacts {
  sight: Sight;
  /** Whose tokens are the queries and the keys, and how many there are of each. */
  query: StackName;
  key: StackName;
  queries: number;
  keys: number;
}
/** head: pattern [query, key]. layer: [head, query, key]. row: [head, key]. model: [layer, head, query, key].
 * A cell of a thumbnail is the largest weight of those it stands for. Float16 on the way. */
export type PatternAnswer = Packed<SightFacts, "pattern">;
/** q [dim], k [key, dim], product [key, dim] (q * k, before scale), dot [key], bias [key] (what positions add; absent
 * where they add nothing), scores [key] (scaled, biased, masked: -Infinity), pattern [key]. `key_head`: whose keys
 * this head reads, where heads share them. */
export type NeuronAnswer = Packed<
  SightFacts & { scale: number; key_head: number },
  "q" | "k" | "product" | "dot" | "bias" | "scores" | "pattern"
>;

/** What heads do on this text, [layer, head] each: the mean weight on the previous token, on the first, on itself, on
 * equal tokens before (same), on the token after an equal one (induction), and the mean entropy in nats. For cross:
 * first and entropy alone. */
export interface HeadsQuestion extends Run {
  sight: Sight;
}
export type HeadsAnswer = Packed<
  { sight: Sight },
  "previous" | "first" | "self" | "same" | "induction" | "entropy"
>;

// --- walk: every step from text to choice, with the real numbers ---------------------------------

export interface WalkQuestion extends Run {
  stack: StackName;
  layer: number;
  head: number;
}

export type StepKind =
  | "tokens" | "embed_token" | "embed_position" | "embed_type" | "embed" | "embed_norm" | "embed_project"
  | AttentionStep | `cross_${AttentionStep}`
  /** What the layers before have made of the embedding; the encoder's output that cross-attention reads. */
  | "stream" | "memory"
  | "norm_ffn" | "ffn_gate" | "ffn_up" | "ffn_act" | "ffn_down" | "residual_ffn"
  | "norm_final" | "logits" | "probabilities" | "choice";
/** `norm` is what the part reads; `rotate_q`, `bias` and `cap` only where the model has them. */
export type AttentionStep =
  | "norm" | "q" | "k" | "v" | "rotate_q" | "rotate_k" | "dot" | "scale" | "cap" | "bias" | "mask" | "softmax"
  | "weighted" | "joined" | "projected" | "residual";

export interface WalkStep {
  /** Unique within the answer; `from` are ids of steps. */
  id: string;
  kind: StepKind;
  stack: StackName;
  /** null before the first layer and after the last. */
  layer: number | null;
  /** For `array` and `cell`; null where there is nothing to draw (tokens, choice). */
  array: string | null;
  shape: number[];
  axes: string[];
  from: string[];
  /** What the formula needs beside its symbols: scale, eps, norm, bias, activation, heads, head, key_head, dim, placement ...
   * `weight` is the name of the matrix (for `array`, axes "out" and "in"), `rows` "from:to" of it where a head has a part
   * of one. `norm` null: the part reads the stream as it is. Of residuals, `placement` "post": normed after the sum;
   * "sandwich": what was said was normed before it. */
  facts: Record<string, string | number | boolean | null>;
}
/** Steps in the order in which this model takes them: from the text to the selected layer's input (`embed`, then
 * residual streams of the layers before are one `array` away: "<stack>.blocks.<i>.resid_pre"), through the layer, and
 * from the last layer to the choice. Of an encoder-decoder's decoder also what it reads of the encoder. */
export interface WalkAnswer {
  steps: WalkStep[];
}

/** How one number came about. */
export interface CellQuestion extends Run {
  /** A step's `array`. */
  name: string;
  head?: number;
  row: number;
  col: number;
  /** Largest terms that are told one by one (default 12); the others are one, labeled "rest". */
  limit?: number;
}
export interface CellAnswer {
  value: number;
  how: "lookup" | "sum" | "norm" | "dot" | "rotate" | "scale" | "cap" | "mask" | "softmax" | "weighted" | "join"
    | "activation" | "product";
  /** value = combination of terms as `how` says: dot and weighted: sum of a * b (+ bias); sum: sum of a; softmax:
   * exp(a - max) over the sum of all; norm: (a - mean) / deviation * gain + bias, told in `parts`. */
  terms: { label: string; a: number; b: number | null; product: number | null }[];
  parts: Record<string, number | string>;
}

// --- next token ----------------------------------------------------------------------------------

export interface Knobs {
  temperature?: number;
  top_k?: number;
  top_p?: number;
  min_p?: number;
}

export interface NextQuestion extends Run, Knobs {
  /** One position; left out: all. */
  position?: number;
  /** How many candidates (default 10, at most 400). */
  count?: number;
}

export interface NextAnswer {
  what: What;
  positions: Prediction[];
  /** Positions that hold the mask token. */
  masks: number[];
}

export interface Prediction {
  /** The row. */
  position: number;
  /** The most probable, the best first. */
  candidates: Candidate[];
  /** What really comes next (or stands there); null at the end, and where outcomes are no tokens. */
  actual: Candidate | null;
  /** In nats, of the distribution with the knobs. */
  entropy: number;
  /** How many tokens the knobs leave. */
  left: number;
}

export interface Candidate {
  token: number;
  text: string;
  logit: number;
  /** As the model has it. */
  logprob: number;
  /** With temperature, top-k, top-p and min-p; 0 where they leave it out. */
  probability: number;
  /** 0 is the most probable, by the model. */
  rank: number;
}

/** The text (or target) with one more token, or at a mask with that token in its place. */
export interface ContinueQuestion extends Run {
  token: number;
  /** Of the mask that is filled; left out: at the end. */
  position?: number;
}
export interface ContinueAnswer {
  text: string;
  target?: string;
}

export interface BeamsQuestion extends Run {
  beams: number;
  /** New tokens at most. */
  length: number;
  length_penalty?: number;
}
export interface BeamsAnswer {
  nodes: BeamNode[];
  /** Whole texts, the best first. */
  results: { node: number; text: string; score: number; stop: string }[];
}
export interface BeamNode {
  /** Its index in `nodes` is its number; null: it follows the text itself. */
  parent: number | null;
  step: number;
  token: number;
  text: string;
  logprob: number;
  /** The sum of log-probabilities up to here. */
  score: number;
  state: "kept" | "finished" | "pruned";
}

/** Generation step by step, with the key-value cache. */
export interface StepQuestion extends Run, Knobs {
  /** New tokens (default 12, at most 64). */
  length?: number;
  seed?: number;
  sample?: boolean;
}
export interface StepAnswer {
  steps: GenerationStep[];
  cache: {
    stack: StackName;
    layers: number;
    key_heads: number;
    head_dim: number;
    bytes_a_token: number;
    /** Of an encoder-decoder: keys and values of the encoder's output, computed once. */
    memory: { tokens: number; bytes: number } | null;
  };
  stop: string;
}
export interface GenerationStep {
  /** Tokens whose keys and values were in the cache (reused), were computed at this step (fresh), and are
   * held afterwards. */
  reused: number;
  fresh: number;
  held: number;
  bytes: number;
  chosen: Candidate;
  candidates: Candidate[];
  milliseconds: number;
}

// --- lens ----------------------------------------------------------------------------------------

export interface LensQuestion extends Run {
  /** Whose probability and rank are wanted: one token everywhere, at every position the token that really comes
   * ("actual", the default), or the one that the last row finds best there ("final"). */
  token?: number | "actual" | "final";
  /** Read through the tuned lens that lies with the model. */
  tuned?: boolean;
}

export interface LensRow {
  /** "embed", "0.mid" (after attention), "0.post" (after the feed-forward), ... */
  name: string;
  layer: number | null;
  after: "embed" | "attention" | "ffn";
}

/** All [row, position]: best (int32) and its probability; chosen (probability), logit and rank (int32) of the wanted
 * token, rank -1 where none is; entropy; divergence (KL of the last row from this one); norm of the stream.
 * `wanted` [position] (int32), -1 where none. `texts` has the text of every token that is named. */
export type LensAnswer = Packed<
  { what: What; stack: StackName; rows: LensRow[]; texts: Record<number, string> },
  "best" | "probability" | "chosen" | "logit" | "rank" | "entropy" | "divergence" | "norm" | "wanted"
>;

/** The candidates of one cell of the lens. */
export interface LensCellQuestion extends Run {
  row: number;
  position: number;
  count?: number;
  tuned?: boolean;
}
export type LensCellAnswer = Prediction;

/** Which parts made a logit, or the difference of two: they add up to it. */
export interface ContributionsQuestion extends Run {
  position: number;
  /** Left out: the most probable. */
  token?: number;
  against?: number;
}
export interface ContributionsAnswer {
  token: number;
  text: string;
  against: { token: number; text: string } | null;
  /** Of the token, or the difference. */
  logit: number;
  parts: Contribution[];
}
export interface Contribution {
  /** embedding, head, cross (a head of cross-attention), ffn, bias, ... */
  kind: string;
  /** As inside/ names it. */
  name: string;
  layer: number | null;
  head: number | null;
  value: number;
}

export interface SaliencyQuestion extends Run {
  position: number;
  token?: number;
  method: "gradient" | "integrated" | "rollout";
}
export interface SaliencyAnswer {
  token: number | null;
  text: string | null;
  /** A number a token. */
  encoder: number[] | null;
  decoder: number[] | null;
}

// --- positions -----------------------------------------------------------------------------------

export interface PositionsQuestion {
  model: string;
  /** How many positions are drawn (default 64, at most 1024). */
  length?: number;
  /** With a text its own length, and what depends on it (DeBERTa's terms), of the last stack alone. */
  text?: string;
  pair?: string;
  target?: string;
}
/** Pictures of how this model knows where a token stands and what it may see; arrays are named by `array`. */
export type PositionsAnswer = Packed<{ pictures: PositionPicture[] }, string>;
export interface PositionPicture {
  array: string;
  stack: StackName;
  /** table (sinusoids, learned rows; facts.layout), bias (T5, ALiBi), rotary, distances (vectors by distance: Shaw,
   * Transformer-XL, DeBERTa), terms (of a score, of a text), mask (which keys are seen). */
  kind: "table" | "bias" | "rotary" | "distances" | "terms" | "mask";
  /** Its name within the kind: table, likeness, mask, ... Pictures of one kind and layers belong together. */
  part: string;
  title: string;
  /** Which layers it holds for. */
  layers: number[];
  axes: string[];
  /** For captions. */
  facts: Record<string, unknown>;
}

// --- edit: before and after ----------------------------------------------------------------------

/** What is predicted: asked first. */
export interface EditQuestion extends EditedRun, Knobs {
  /** Where predictions are compared; left out: the last. */
  position?: number;
}
export interface EditedRun extends Run {
  edits: Edit[];
}
/** divergence [row]: KL(before || after) of all that is predicted. `tokens`: how many the text has. */
export type EditAnswer = Packed<
  {
    before: Prediction;
    after: Prediction;
    /** Of the largest changes in probability, both ways. */
    moved: { id: number; text: string; before: number; after: number }[];
    tokens: number;
    milliseconds: number;
  },
  "divergence"
>;

/** The lens, of the embedding and every layer, at the positions that are in sight; left out: all. */
export interface EditLensQuestion extends EditedRun {
  first?: number;
  count?: number;
}
/** best_before, best_after (int32) [row, position]: the most probable token, and lens_before, lens_after its probability.
 * `first` is the first of these positions, `tokens` how many the text has. */
export type EditLensAnswer = Packed<
  { rows: LensRow[]; texts: Record<number, string>; first: number; tokens: number },
  "best_before" | "best_after" | "lens_before" | "lens_after"
>;

/** What is written from the text, up to `length` tokens (default 16). */
export interface EditTextQuestion extends EditedRun {
  length?: number;
}
export interface EditTextAnswer {
  before: string;
  after: string;
}

/** Activation patching, place by place: the run of `text` with one activation after another of the run of `from` (a text
 * of as many tokens), and by how much that changes a logit. `effect`: [layer, position], or [layer, head] for z, q, k, v
 * and pattern. */
export interface SweepQuestion extends Run {
  from: string;
  at: "resid_pre" | "attn_out" | "ffn_out" | "z" | "q" | "k" | "v" | "pattern";
  position?: number;
  /** Left out: the most probable of `text`. */
  token?: number;
  /** The logit less that of this token. */
  against?: number;
}
export type SweepAnswer = Packed<{ title: string; axes: string[] }, "effect">;

// --- compare -------------------------------------------------------------------------------------

export interface CompareQuestion {
  a: string;
  b: string;
  text: string;
  pair?: string;
  target?: string;
  /** Whose outputs are compared, where one of the models has a head of that name. */
  output?: string;
  position?: number;
}
/** For each sight: `heads.<sight>` [layer, head]: how far patterns are apart (mean total variation over queries, 0 to 1);
 * `written.<sight>` [layer, head]: how much what the head writes has changed, relative to its size; `attention.<sight>`
 * [layer] the same of all heads together; and for stacks `ffn.<stack>`, `residual.<stack>` (relative change of the
 * stream) and `cosine.<stack>` [layer]. `divergence` [row]: KL(a || b) of the predictions. It, `a` and `b` are there
 * where both choose among the same outcomes. */
export type CompareAnswer = Packed<
  {
    sights: Sight[];
    tokens: { encoder: Token[] | null; decoder: Token[] | null };
    a: Prediction | null;
    b: Prediction | null;
    /** Of the weights, relative to their size; the largest changes first. */
    weights: { name: string; change: number }[];
  },
  string
>;

// --- neurons over many texts ---------------------------------------------------------------------

/** The texts in which a neuron of a feed-forward layer is most active. */
export interface StrongestQuestion {
  model: string;
  stack: StackName;
  layer: number;
  neuron: number;
  texts: string[];
  count?: number;
}
export interface StrongestAnswer {
  /** Texts that were read: empty ones are not. */
  read: number;
  excerpts: Excerpt[];
}
/** Of text number `text`: the largest value, at `position`, which is place `at` of the tokens around it. */
export interface Excerpt {
  text: number;
  position: number;
  value: number;
  tokens: string[];
  values: number[];
  at: number;
}

// --- parameters ----------------------------------------------------------------------------------

export interface ParametersQuestion {
  model: string;
}
export interface ParametersAnswer {
  total: number;
  parts: Part[];
}
export interface Part {
  name: string;
  depth: number;
  /** null: a module, whose parts follow. */
  shape: number[] | null;
  count: number;
  tied_to: string | null;
  /** Computed, not learned. */
  fixed: boolean;
  dtype: string | null;
}

/** How a parameter's numbers are distributed. */
export interface HistogramQuestion {
  model: string;
  name: string;
}
export interface HistogramAnswer {
  name: string;
  /** One more edge than counts. */
  edges: number[];
  counts: number[];
  mean: number;
  deviation: number;
  least: number;
  most: number;
  /** The share of exact zeros; whether a part of a large tensor was looked at. */
  zeros: number;
  sampled: boolean;
}

/** What a head (ov, qk) or the neurons of a layer (in, gate, out) are made to do, by their weights alone: the strongest
 * directions of the matrix, with the tokens at both ends of each. */
export interface CircuitQuestion {
  model: string;
  stack: StackName;
  layer: number;
  head?: number;
  which?: "ov" | "qk" | "in" | "gate" | "out";
  /** Of the heads that ask the encoder. */
  cross?: boolean;
}
export interface CircuitAnswer {
  which: string;
  strengths: number[];
  /** By what is done there: "writes", "reads", "asks", "is asked"; a pair for every strength. */
  ends: Record<string, { toward: Word[]; away: Word[] }[]>;
}
export interface Word {
  id: number;
  text: string;
  value: number;
}

/** How much the heads of a stack work on what earlier ones write, by queries, keys or values. */
export interface CompositionQuestion {
  model: string;
  stack: StackName;
  kind?: "q" | "k" | "v";
}
/** scores [from, to], 0 where it is not later; `top` are the strongest pairs, by the places of heads. */
export type CompositionAnswer = Packed<
  { heads: { layer: number; head: number }[]; top: { from: number; to: number; score: number }[] },
  "scores"
>;

// --- all of them ---------------------------------------------------------------------------------

export interface Questions {
  models: [ModelsQuestion, ModelsAnswer];
  structure: [StructureQuestion, StructureAnswer];
  read: [ReadQuestion, ReadAnswer];
  array: [ArrayQuestion, ArrayAnswer];
  vocabulary: [VocabularyQuestion, VocabularyAnswer];
  attention: [AttentionQuestion, PatternAnswer | NeuronAnswer];
  heads: [HeadsQuestion, HeadsAnswer];
  walk: [WalkQuestion, WalkAnswer];
  cell: [CellQuestion, CellAnswer];
  next: [NextQuestion, NextAnswer];
  continue: [ContinueQuestion, ContinueAnswer];
  beams: [BeamsQuestion, BeamsAnswer];
  step: [StepQuestion, StepAnswer];
  lens: [LensQuestion, LensAnswer];
  lens_cell: [LensCellQuestion, LensCellAnswer];
  contributions: [ContributionsQuestion, ContributionsAnswer];
  saliency: [SaliencyQuestion, SaliencyAnswer];
  strongest: [StrongestQuestion, StrongestAnswer];
  positions: [PositionsQuestion, PositionsAnswer];
  edit: [EditQuestion, EditAnswer];
  edit_lens: [EditLensQuestion, EditLensAnswer];
  edit_text: [EditTextQuestion, EditTextAnswer];
  sweep: [SweepQuestion, SweepAnswer];
  compare: [CompareQuestion, CompareAnswer];
  parameters: [ParametersQuestion, ParametersAnswer];
  histogram: [HistogramQuestion, HistogramAnswer];
  circuit: [CircuitQuestion, CircuitAnswer];
  composition: [CompositionQuestion, CompositionAnswer];
}
