/** The texts that neurons are looked at with; they stay while other panels and neurons are looked at. */
class Many {
  /** What stands in the field; null: examples. */
  typed = $state<string | null>(null);
  /** What was asked with. */
  texts = $state.raw<string[] | null>(null);
}

export const many = new Many();
