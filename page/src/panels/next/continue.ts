/** Going on with another token, at the end of the text or in the middle of it. */
import { send } from "../../api";
import type { PageToken, RunRequest } from "../../protocol.generated";
import type { Structure } from "../../session.svelte";

/** Tokens as text again; marks that the tokenizer set are not part of it, nor the beginning of a character. */
export function textOf(tokens: readonly PageToken[]): string {
  const textOf = ({ text, character }: PageToken) => (character === null ? text : character.part === character.parts - 1 ? character.text : "");
  return tokens.filter(({ special }) => !special).map(textOf).join("");
}

/** The run that ends with `token` behind `position` (or has it in the place of the mask there). */
export async function continued(run: RunRequest, structure: Structure, tokens: readonly PageToken[], position: number, token: number): Promise<Partial<RunRequest>> {
  if (structure.predicts.what === "masked") return send("continue", { ...run, token, position });
  const last = position >= tokens.length - 1;
  const before = tokens.slice(0, position + 1);
  const cut = last ? run : structure.reads.target ? { ...run, target: textOf(before) } : { ...run, text: textOf(before) };
  return send("continue", { ...cut, token });
}
