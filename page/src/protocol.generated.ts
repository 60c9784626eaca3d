// Written by tools/protocol.py from the annotations of glassformer/page/handlers. Do not edit.
import type { BinaryResponse } from "./binary";

/** A part of a tensor: a hook point, an array of a `WalkStep`, or a parameter. */
export type ArrayRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  name: string;
  at?: Record<string, number | [number, number]>;
  downsample?: Record<string, number>;
  downsample_by?: "mean" | "max" | "absmax";
  dtype?: "float16" | "float32";
};

/** Multiplies an activation by a factor; 0 ablates heads or a layer. */
export type ScaleEdit = {
  kind: "scale";
  at: string;
  heads?: number[] | null;
  positions?: number[] | null;
  factor: number;
};

/** Adds a vector to an activation. */
export type AddEdit = {
  kind: "add";
  at: string;
  vector: number[];
  positions?: number[] | null;
  factor?: number;
};

/** Removes the component of an activation along a vector. */
export type RemoveEdit = {
  kind: "remove";
  at: string;
  vector: number[];
  positions?: number[] | null;
  factor?: number;
};

/** Replaces an activation by a vector. */
export type ReplaceEdit = {
  kind: "replace";
  at: string;
  vector: number[];
  heads?: number[] | null;
  positions?: number[] | null;
};

/** Replaces an activation by its value for another text. */
export type PatchEdit = {
  from: string;
  kind: "patch";
  at: string;
  positions?: [number, number][] | null;
  heads?: number[] | null;
};

/** Adds factor * (mean activation over `toward` - mean activation over `away`). */
export type SteerEdit = {
  kind: "steer";
  at: string;
  toward: string;
  away: string;
  positions?: number[] | null;
  factor: number;
};

export type Edit = ScaleEdit | AddEdit | RemoveEdit | ReplaceEdit | PatchEdit | SteerEdit;

/** A part of a tensor. */
export type ArrayResponse = BinaryResponse<ArrayMetadata, "array">;

/** The shape and axes of the whole tensor, and the range of the requested part. */
export type ArrayMetadata = {
  name: string;
  shape: number[];
  axes: string[];
  min: number;
  max: number;
};

/** The pattern of one head. */
export type HeadPatternRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  attention_type: AttentionType;
  view: "head";
  layer: number;
  head: number;
};

export type AttentionType = "encoder" | "decoder" | "cross";

/** The patterns of some or all heads of a layer, downsampled to at most `size` x `size`. */
export type LayerPatternsRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  attention_type: AttentionType;
  view: "layer";
  layer: number;
  heads?: number[];
  size?: number;
};

/** The attention weights of one query in all heads of a layer. */
export type QueryRowRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  attention_type: AttentionType;
  view: "row";
  layer: number;
  query: number;
};

/** Thumbnails of all heads of the layers [first, end), of the queries and keys [from, to). */
export type ModelPatternsRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  attention_type: AttentionType;
  view: "model";
  size?: number;
  first?: number;
  end?: number;
  queries?: [number, number];
  keys?: [number, number];
};

/** The query, keys and scores of one query of a head. */
export type NeuronsRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  attention_type: AttentionType;
  view: "neuron";
  layer: number;
  head: number;
  query: number;
};

export type AttentionRequest = HeadPatternRequest | LayerPatternsRequest | QueryRowRequest | ModelPatternsRequest | NeuronsRequest;

/** Attention weights in float16; axes: some of [layer, head, query, key]. */
export type PatternResponse = BinaryResponse<PatternMetadata, "pattern">;

/** The stacks of the queries and keys, and their numbers of tokens. */
export type PatternMetadata = {
  attention_type: AttentionType;
  query: StackName;
  key: StackName;
  queries: number;
  keys: number;
};

export type StackName = "encoder" | "decoder";

/** q [dim], k and product (q * k) [key, dim]; dot, bias, scores and pattern [key]. */
export type NeuronsResponse = BinaryResponse<NeuronsMetadata, "q" | "k" | "product" | "dot" | "bias" | "scores" | "pattern">;

export type NeuronsMetadata = {
  attention_type: AttentionType;
  query: StackName;
  key: StackName;
  queries: number;
  keys: number;
  scale: number;
  key_head: number;
};

/** A beam search after `position`, by default that of `continued_position`. */
export type BeamsRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  beams: number;
  length: number;
  position?: number;
  length_penalty?: number;
};

/** The tree of beam search after the token at `position`; the results are sorted by score. */
export type BeamsResponse = {
  position: number;
  nodes: BeamNode[];
  results: BeamResult[];
};

/** A token in the beam search tree. */
export type BeamNode = {
  parent: number | null;
  step: number;
  token: number;
  text: string;
  logprob: number;
  score: number;
  state: "kept" | "finished" | "length" | "pruned";
};

/** A result; `node` is the index of its last token, `score` is sum / length^length_penalty. */
export type BeamResult = {
  node: number;
  text: string;
  score: number | null;
  stop: StopReason;
};

export type StopReason = "eos" | "length" | "string" | "time";

/** A number of a step's array; `limit` is the number of terms that are listed. */
export type CellRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  name: string;
  head?: number;
  row: number;
  col: number;
  limit?: number;
};

/** A number and the terms that it is computed from; see `inside.explain.terms.Cell`. */
export type CellResponse = {
  value: number;
  how: CellOperation;
  terms: Term[];
  parts: Record<string, number | string>;
};

export type CellOperation = "lookup" | "sum" | "norm" | "dot" | "rotate" | "scale" | "cap" | "mask" | "softmax" | "weighted" | "join" | "activation" | "product";

/** One term: a product of two numbers, or a single summand. */
export type Term = {
  label: string;
  a: number;
  b: number | null;
  product: number | null;
};

/** A circuit of a head (ov, qk) or of the neurons of a layer (in, gate, out). */
export type CircuitRequest = {
  model: string;
  stack: StackName;
  layer: number;
  head?: number;
  which?: "ov" | "qk" | "in" | "gate" | "out";
  cross?: boolean;
};

/** The strongest directions; `ends` has one entry per strength and side of the circuit. */
export type CircuitResponse = {
  which: string;
  strengths: number[];
  ends: Record<string, CircuitDirection[]>;
};

/** The tokens at the positive and at the negative end of a direction. */
export type CircuitDirection = {
  toward: TokenScore[];
  away: TokenScore[];
};

/** A token and its value along a direction. */
export type TokenScore = {
  id: number;
  text: string;
  value: number;
};

/** A request about a model: an id of `models`, or of one of its checkpoints. */
export type ModelRequest = {
  model: string;
};

/** The models that a model can be compared with: those with the same tokenizer. */
export type ComparableResponse = {
  models: string[];
};

export type CompareRequest = {
  a: string;
  b: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  position?: number;
};

/** Changes by layer and head. */
export type CompareResponse = BinaryResponse<CompareMetadata, string>;

/** `a` and `b` are the predictions, if both models choose among the same outcomes. */
export type CompareMetadata = {
  attention_types: AttentionType[];
  tokens: StackTokens;
  a: OutputChoice | null;
  b: OutputChoice | null;
  weights: WeightChange[];
};

export type StackTokens = {
  encoder: PageToken[] | null;
  decoder: PageToken[] | null;
};

/** A token. */
export type PageToken = {
  id: number | null;
  text: string;
  piece: string;
  special: boolean;
  sentence: number | null;
  character: CharacterPart | null;
};

/** The characters that a token has only a part of the bytes of, and which part of them it is. */
export type CharacterPart = {
  text: string;
  part: number;
  parts: number;
};

/** The output distribution at a position (or another row, see `predictions.py`). */
export type OutputChoice = {
  position: number;
  candidates: OutputCandidate[];
  actual: OutputCandidate | null;
  entropy: number;
  left: number;
};

/** One candidate output. */
export type OutputCandidate = {
  token: number;
  text: string;
  logit: number;
  logprob: number;
  probability: number;
  rank: number;
};

/** The change of a weight, relative to its norm. */
export type WeightChange = {
  name: string;
  change: number;
};

export type CompositionRequest = {
  model: string;
  stack: StackName;
  kind?: "q" | "k" | "v";
};

/** Scores [from, to]; 0 if the second head is not in a later layer. */
export type CompositionResponse = BinaryResponse<CompositionMetadata, "scores">;

/** All heads, and the highest pairs by indices into `heads`. */
export type CompositionMetadata = {
  heads: HeadAddress[];
  top: HeadPair[];
};

export type HeadAddress = {
  layer: number;
  head: number;
};

export type HeadPair = {
  from: number;
  to: number;
  score: number;
};

/** The token to append to the text, or to fill in the mask at `position`. */
export type ContinueRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  token: number;
  position?: number;
};

export type ContinueResponse = {
  text: string;
  pair?: string;
  target?: string;
};

/** The contributions to the logit of `token`, or to its difference from that of `against`. */
export type ContributionsRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  position: number;
  token?: number;
  against?: number;
};

/** The contributions add up to `logit`, or to the difference of two logits. */
export type ContributionsResponse = {
  token: number;
  text: string;
  against: Outcome | null;
  logit: number;
  parts: LogitContribution[];
};

export type Outcome = {
  token: number;
  text: string;
};

export type LogitContribution = {
  kind: string;
  name: string;
  layer: number | null;
  head: number | null;
  value: number;
};

export type EditRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits: Edit[];
  temperature?: number;
  top_k?: number;
  top_p?: number;
  min_p?: number;
  position?: number;
};

/** `divergence` [row] is KL(before || after) of all predictions. */
export type EditResponse = BinaryResponse<EditMetadata, "divergence">;

/** `moved` are the outputs whose probability changed most; `tokens` is the text's length. */
export type EditMetadata = {
  before: OutputChoice;
  after: OutputChoice;
  moved: Mover[];
  tokens: number;
  milliseconds: number;
};

/** A token (or label) whose probability changed. */
export type Mover = {
  id: number;
  text: string;
  before: number;
  after: number;
};

/** The lens at `count` positions from `first` on; by default all. */
export type EditLensRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits: Edit[];
  first?: number;
  count?: number;
};

/** The most probable token [row, position] before and after, and its probability. */
export type EditLensResponse = BinaryResponse<EditLensMetadata, "best_before" | "best_after" | "lens_before" | "lens_after">;

export type EditLensMetadata = {
  rows: LensRow[];
  texts: Record<number, string>;
  first: number;
  tokens: number;
};

/** A stage of the residual stream: "embed", "0.mid" (after attention), "0.post", ... */
export type LensRow = {
  name: string;
  layer: number | null;
  after: LensStage;
};

export type LensStage = "embed" | "attention" | "ffn";

export type EditTextRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits: Edit[];
  length?: number;
};

export type EditTextResponse = {
  before: string;
  after: string;
};

export type HeadTypesRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  attention_type: AttentionType;
};

/** Mean attention weight on certain tokens, and mean entropy in nats, [layer, head] each. */
export type HeadTypesResponse = BinaryResponse<HeadTypesMetadata, "previous" | "first" | "self" | "same" | "induction" | "entropy">;

export type HeadTypesMetadata = {
  attention_type: AttentionType;
};

/** A request about a model that reads a text. */
export type RunRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
};

/** The place that the page shows first; the head is None if none contributes by itself. */
export type HighlightResponse = {
  position: number;
  attention_type: AttentionType | null;
  layer: number | null;
  head: number | null;
};

export type HistogramRequest = {
  model: string;
  name: string;
};

/** The distribution of a tensor's values; there is one more edge than counts. */
export type HistogramResponse = {
  name: string;
  edges: number[];
  counts: number[];
  mean: number;
  deviation: number;
  least: number;
  most: number;
  zeros: number;
  sampled: boolean;
};

/** The lens of a text. */
export type LensRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  token?: number | "actual" | "final";
  tuned?: boolean;
};

/** Measures of each stage and position, [row, position]. */
export type LensResponse = BinaryResponse<LensMetadata, "best" | "probability" | "chosen" | "logit" | "rank" | "entropy" | "divergence" | "norm" | "wanted">;

/** `texts` has the text of every token id in the arrays. */
export type LensMetadata = {
  what: PredictionKind;
  stack: StackName;
  rows: LensRow[];
  texts: Record<number, string>;
};

export type PredictionKind = "next" | "masked" | "tag" | "classify" | "span";

export type LensCellRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  row: number;
  position: number;
  count?: number;
  tuned?: boolean;
};

export type ModelsRequest = {
};

export type ModelsResponse = {
  models: ModelEntry[];
  start: InitialState;
  version: string;
};

/** A model; for a run folder, `id` stands for the last of its checkpoints. */
export type ModelEntry = {
  id: string;
  name: string;
  kind: ModelKind;
  architecture: string;
  examples: ExampleText[];
  checkpoints: CheckpointEntry[];
};

export type ModelKind = "decoder" | "encoder" | "encoder-decoder";

export type ExampleText = {
  text: string;
  pair?: string;
  target?: string;
};

/** A checkpoint of a run folder; `name` is "best", "model" (the end of the run) or None. */
export type CheckpointEntry = {
  id: string;
  step: number;
  name: string | null;
  loss: number | null;
};

/** The model, text and head that the page shows if the address names none. */
export type InitialState = {
  text: string;
  pair?: string;
  target?: string;
  model: string;
  output: string | null;
};

export type NextRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  temperature?: number;
  top_k?: number;
  top_p?: number;
  min_p?: number;
  position?: number;
  count?: number;
};

/** `masks` are the positions of the mask token. */
export type NextResponse = {
  what: PredictionKind;
  positions: OutputChoice[];
  masks: number[];
};

/** The effect of each token on the logit of `token`; "swap" puts others in, "occlusion" none. */
export type OcclusionRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  position: number;
  token?: number;
  method: EffectMethod;
};

export type EffectMethod = "swap" | "occlusion";

/** The fall of the logit per token of each stack, None where nothing was changed. */
export type OcclusionResponse = {
  token: number;
  text: string;
  logit: number;
  probability: number | null;
  encoder: (number | null)[] | null;
  decoder: (number | null)[] | null;
  changes: ChangedText[];
};

/** The output for a changed text; `by` is the replacement, None if the token is left out. */
export type ChangedText = {
  stack: StackName;
  at: number;
  by: string | null;
  logit: number;
  probability: number | null;
  best: string;
  best_probability: number | null;
};

export type ParametersResponse = {
  total: number;
  parts: Parameter[];
};

/** A tensor, or a group of tensors (`shape` is None) with their total count. */
export type Parameter = {
  name: string;
  depth: number;
  shape: number[] | null;
  count: number;
  dtype: string | null;
  tied_to: string | null;
  fixed: boolean;
};

/** With a text, `length` is its length, and information that depends on a text is added. */
export type PositionsRequest = {
  model: string;
  length?: number;
  text?: string;
  pair?: string;
  target?: string;
  output?: string;
};

/** The position information of a model; `PositionPicture.array` names the arrays. */
export type PositionsResponse = BinaryResponse<PositionsMetadata, string>;

export type PositionsMetadata = {
  pictures: PositionPicture[];
};

/** One array of position information. */
export type PositionPicture = {
  array: string;
  stack: StackName;
  kind: PictureKind;
  part: string;
  title: string;
  layers: number[];
  axes: string[];
  parameters: Record<string, unknown>;
};

export type PictureKind = "table" | "bias" | "rotary" | "distances" | "terms" | "mask";

export type ReadResponse = {
  encoder: PageToken[] | null;
  decoder: PageToken[] | null;
  target: TargetText | null;
};

/** The decoder's text; `written` tells that the model generated it. */
export type TargetText = {
  text: string;
  written: boolean;
};

export type SaliencyRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  position: number;
  token?: number;
  method: "gradient" | "integrated" | "rollout";
  measure?: EffectMethod;
};

/** One number per token of each stack. */
export type SaliencyResponse = {
  token: number | null;
  text: string | null;
  encoder: number[] | null;
  decoder: number[] | null;
  agreement: number | null;
};

/** Generation after `position`, by default that of `continued_position`. */
export type StepRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  temperature?: number;
  top_k?: number;
  top_p?: number;
  min_p?: number;
  length?: number;
  position?: number;
  seed?: number;
  sample?: boolean;
};

export type StepResponse = {
  steps: TracedStep[];
  cache: CacheDescription;
  stop: StopReason;
  position: number;
};

/** A generation step. */
export type TracedStep = {
  reused: number;
  fresh: number;
  held: number;
  bytes: number;
  chosen: OutputCandidate;
  candidates: OutputCandidate[];
  milliseconds: number;
};

export type CacheDescription = {
  stack: StackName;
  layers: number;
  key_heads: number;
  head_dim: number;
  bytes_per_token: number;
  memory: EncoderCache | null;
};

/** The keys and values of the encoder's output, computed once. */
export type EncoderCache = {
  tokens: number;
  bytes: number;
};

/** A neuron of a feed-forward layer, and texts. */
export type StrongestRequest = {
  model: string;
  stack: StackName;
  layer: number;
  neuron: number;
  texts: string[];
  count?: number;
};

/** The strongest excerpts; `read` is the number of texts that are not empty. */
export type StrongestResponse = {
  read: number;
  excerpts: Excerpt[];
};

/** The tokens around a neuron's largest activation in a text. */
export type Excerpt = {
  text: number;
  position: number;
  value: number;
  tokens: string[];
  values: number[];
  at: number;
};

/** The structure of a model; the heads read the output of the stack `last`. */
export type StructureResponse = {
  model: string;
  kind: ModelKind;
  architecture: string;
  parameters: number;
  reads: ReadableInputs;
  attention_types: AttentionType[];
  stacks: StackDescriptions;
  last: StackName;
  heads: HeadDescription[];
  outputs: OutputDescription[];
  tie: [string, string][];
};

export type ReadableInputs = {
  pair: boolean;
  target: boolean;
  empty: boolean;
};

export type StackDescriptions = {
  encoder?: StackDescription;
  decoder?: StackDescription;
};

/** A stack; `context` is the largest number of tokens, None if there is no limit. */
export type StackDescription = {
  width: number;
  vocabulary: number;
  context: number | null;
  reads: "text" | "sound" | "images";
  embed: EmbeddingDescription;
  layers: LayerDescription[];
  final_norm: NormDescription | null;
};

export type EmbeddingDescription = {
  scale: number;
  position: Record<string, unknown> | null;
  segments: number;
  norm: NormDescription | null;
  factor: number | null;
};

export type NormDescription = {
  kind: string;
  eps: number;
  bias: boolean;
};

/** A layer; `block` is the index of its weights. */
export type LayerDescription = {
  block: number;
  kind: LayerKind;
  attention: AttentionDescription | null;
  cross: AttentionDescription | null;
  ffn: FeedForwardDescription | null;
  norm: NormDescription | null;
  placement: string | null;
  residual: string | null;
  position: Record<string, unknown> | null;
  pattern: PatternDescription | null;
};

export type LayerKind = "attention" | "recurrent" | "convolutional" | "hop";

export type AttentionDescription = {
  heads: number;
  key_heads: number;
  head_dim: number;
  scale: number;
  softcap: number | null;
  qk_norm: boolean;
  score: string;
};

export type FeedForwardDescription = {
  width: number;
  activation: string;
  gated: boolean;
};

/** Which keys a query may attend to. */
export type PatternDescription = {
  kind: "full" | "causal" | "window" | "blocks";
  left: number | null;
  right: number | null;
  dilation: number;
  block: number | null;
  random: number | null;
  whole: number | null;
};

export type HeadDescription = {
  name: string;
  kind: string;
  outputs: number | null;
  labels: string[];
};

/** What the page can show for a head. */
export type OutputDescription = {
  head: string | null;
  predicts: PredictionDescription;
  tuned: boolean;
  writes: boolean;
  mask: MaskToken | null;
  proposes: boolean;
};

/** What a head predicts. */
export type PredictionDescription = {
  what: PredictionKind | null;
  why: string | null;
  labels: string[];
  several: boolean;
  number: boolean;
  ends: number;
  lens: boolean;
};

export type MaskToken = {
  token: number;
  text: string;
};

/** The effect of the token `by` in place of the one at `at` of `stack`. */
export type SwapRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  position: number;
  token?: number;
  stack: StackName;
  at: number;
  by: number;
};

/** Patches each activation of `text` from the run of `from`. */
export type SweepRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  from: string;
  at: "resid_pre" | "attn_out" | "ffn_out" | "z" | "q" | "k" | "v" | "pattern";
  position?: number;
  token?: number;
  against?: number;
};

/** The change of the logit [layer, position], or [layer, head] for z, q, k, v and pattern. */
export type SweepResponse = BinaryResponse<SweepMetadata, "effect">;

/** `output` is measured; `pairs` are the positions of `text` and of `from`. */
export type SweepMetadata = {
  title: string;
  axes: string[];
  output: Outcome;
  pairs: [number, number][];
};

export type VocabularyRequest = {
  model: string;
  begins: string;
  count?: number;
};

export type VocabularyResponse = {
  tokens: VocabularyEntry[];
};

export type VocabularyEntry = {
  token: number;
  text: string;
  piece: string;
};

export type WalkRequest = {
  model: string;
  text: string;
  pair?: string;
  target?: string;
  output?: string;
  edits?: Edit[];
  stack: StackName;
  layer: number;
  head: number;
};

/** The steps in order: from the text through the selected layer to the prediction. */
export type WalkResponse = {
  steps: WalkStep[];
};

/** A computation step. */
export type WalkStep = {
  id: string;
  kind: StepKind;
  stack: StackName;
  layer: number | null;
  array: string | null;
  shape: number[];
  axes: string[];
  inputs: string[];
  parameters: Record<string, string | number | boolean | null>;
};

export type AttentionStep = "norm" | "q" | "k" | "v" | "rotate_q" | "rotate_k" | "dot" | "scale" | "cap" | "bias" | "mask" | "softmax" | "weighted" | "joined" | "projected" | "residual";

export type CrossAttentionStep = "cross_norm" | "cross_q" | "cross_k" | "cross_v" | "cross_rotate_q" | "cross_rotate_k" | "cross_dot" | "cross_scale" | "cross_cap" | "cross_bias" | "cross_mask" | "cross_softmax" | "cross_weighted" | "cross_joined" | "cross_projected" | "cross_residual";

export type OtherStep = "tokens" | "embed_token" | "embed_position" | "embed_type" | "embed" | "embed_norm" | "embed_project" | "stream" | "memory" | "norm_ffn" | "ffn_gate" | "ffn_up" | "ffn_act" | "ffn_down" | "residual_ffn" | "norm_final" | "logits" | "probabilities" | "choice";

export type StepKind = AttentionStep | CrossAttentionStep | OtherStep;

/** The types of every route. */
export interface Routes {
  array: { request: ArrayRequest; response: ArrayResponse };
  attention: { request: AttentionRequest; response: PatternResponse | NeuronsResponse };
  beams: { request: BeamsRequest; response: BeamsResponse };
  cell: { request: CellRequest; response: CellResponse };
  circuit: { request: CircuitRequest; response: CircuitResponse };
  comparable: { request: ModelRequest; response: ComparableResponse };
  compare: { request: CompareRequest; response: CompareResponse };
  composition: { request: CompositionRequest; response: CompositionResponse };
  continue: { request: ContinueRequest; response: ContinueResponse };
  contributions: { request: ContributionsRequest; response: ContributionsResponse };
  edit: { request: EditRequest; response: EditResponse };
  edit_lens: { request: EditLensRequest; response: EditLensResponse };
  edit_text: { request: EditTextRequest; response: EditTextResponse };
  heads: { request: HeadTypesRequest; response: HeadTypesResponse };
  highlight: { request: RunRequest; response: HighlightResponse };
  histogram: { request: HistogramRequest; response: HistogramResponse };
  lens: { request: LensRequest; response: LensResponse };
  lens_cell: { request: LensCellRequest; response: OutputChoice };
  models: { request: ModelsRequest; response: ModelsResponse };
  next: { request: NextRequest; response: NextResponse };
  occlusion: { request: OcclusionRequest; response: OcclusionResponse };
  parameters: { request: ModelRequest; response: ParametersResponse };
  positions: { request: PositionsRequest; response: PositionsResponse };
  read: { request: RunRequest; response: ReadResponse };
  saliency: { request: SaliencyRequest; response: SaliencyResponse };
  step: { request: StepRequest; response: StepResponse };
  strongest: { request: StrongestRequest; response: StrongestResponse };
  structure: { request: ModelRequest; response: StructureResponse };
  swap: { request: SwapRequest; response: OcclusionResponse };
  sweep: { request: SweepRequest; response: SweepResponse };
  vocabulary: { request: VocabularyRequest; response: VocabularyResponse };
  walk: { request: WalkRequest; response: WalkResponse };
}
