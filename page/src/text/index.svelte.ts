/** The page's words, in the language that was chosen. */
import { en } from "./en";
import { zh } from "./zh";

/** The same keys with any words; functions keep their arguments. */
type Words<T> = T extends string
  ? string
  : T extends (...given: infer Given) => string
    ? (...given: Given) => string
    : { readonly [Key in keyof T]: Words<T[Key]> };
export type Texts = Words<typeof en>;
export type Language = "en" | "zh";

const LANGUAGES: Record<Language, Texts> = { en, zh };
const KEPT = "glassformer.language";

function first(): Language {
  const asked = new URLSearchParams(location.search).get("lang") ?? localStorage.getItem(KEPT) ?? navigator.language;
  return asked.startsWith("zh") ? "zh" : "en";
}

class Dictionary {
  language = $state<Language>(first());
  t: Texts = $derived(LANGUAGES[this.language]);

  choose(language: Language): void {
    this.language = language;
    localStorage.setItem(KEPT, language);
  }
}

/** `words.t.walk.title`: reactive, in markup and in `$derived`. */
export const words = new Dictionary();
