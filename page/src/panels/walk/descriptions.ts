/** The texts that describe a step, which depend on the model. */
import type { LayerDescription, WalkStep } from "../../protocol.generated";
import type { Structure } from "../../session.svelte";
import type { Translation } from "../../text/index.svelte";
import type { en } from "./texts";
import { plainKind, type Stop } from "./path";

type Say = Translation<typeof en>;

export function nameOf(stop: Stop, say: Say): string {
  if (isBare(stop)) return say.finalBare.name;
  return stop.step ? say.steps[plainKind(stop.step.kind)].name : say.whole[stop.whole!];
}

/** `block` is the one that is looked at. */
export function plainOf(stop: Stop, say: Say, structure: Structure, block: LayerDescription | undefined): string {
  if (!stop.step) return stop.whole === "block" && block?.cross ? say.plain.blockCross : say.plain[stop.whole!];
  if (isBare(stop)) return say.finalBare.plain;
  const { step } = stop;
  const kind = plainKind(step.kind);
  const cross = step.kind.startsWith("cross_");
  if (kind === "mask") return maskOf(step, say, structure);
  if (isRms(step)) return say.normRms.plain;
  const { what, several } = structure.predicts;
  if ((kind === "logits" || kind === "choice") && what !== null && what !== "next") return say.ends[what][kind];
  if (kind === "probabilities" && several) return say.several;
  if (cross && kind in say.cross) return say.cross[kind as keyof Say["cross"]];
  return say.steps[kind].plain;
}

export function detailOf(stop: Stop, say: Say, structure: Structure): string | null {
  if (!stop.step) return null;
  const kind = plainKind(stop.step.kind);
  if (["logits", "probabilities", "choice"].includes(kind) && !ofTokens(structure)) return null;
  const layer = structure.stacks[stop.step.stack]?.layers[stop.step.layer ?? 0];
  if (isRms(stop.step)) return say.normRms.detail;
  const summed = kind === "residual" || kind === "residual_ffn";
  const { detail } = say.steps[kind];
  return summed && layer?.placement === "post" ? `${say.post} ${detail}` : detail;
}

/** What the details of the last steps tell is of vocabularies. */
function ofTokens({ predicts: { what } }: Structure): boolean {
  return what === "next" || what === "masked";
}

/** The end of a stack that has no norm there. */
function isBare({ step }: Stop): boolean {
  return step?.kind === "norm_final" && step.parameters.norm === null;
}

/** The norm that a block's first part reads through. */
function isRms({ kind, parameters }: WalkStep): boolean {
  return kind === "norm" && parameters.norm === "rms";
}

function maskOf(step: WalkStep, say: Say, structure: Structure): string {
  if (step.kind.startsWith("cross_")) return say.maskCross;
  const pattern = structure.stacks[step.stack]?.layers[step.layer ?? 0]?.pattern?.kind;
  if (pattern === "full") return say.maskFull;
  if (pattern === "window" || pattern === "blocks") return say.maskWindow;
  return say.steps.mask.plain;
}
