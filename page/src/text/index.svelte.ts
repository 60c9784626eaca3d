/** The language of the page and the texts in it. */
import { en } from "./en";
import { zh } from "./zh";

/** The same keys with any texts; functions keep their parameters. */
export type Translation<T> = T extends string
  ? string
  : T extends (...args: infer Args) => string
    ? (...args: Args) => string
    : { readonly [Key in keyof T]: Translation<T[Key]> };
export type Language = "en" | "zh";

const STORAGE_KEY = "glassformer.language";

function initialLanguage(): Language {
  const code = new URLSearchParams(location.search).get("lang") ?? localStorage.getItem(STORAGE_KEY) ?? navigator.language;
  return code.startsWith("zh") ? "zh" : "en";
}

class Words {
  language = $state<Language>(initialLanguage());
  /** The texts that all panels share. */
  t: Translation<typeof en> = $derived(this.language === "zh" ? zh : en);

  choose(language: Language): void {
    this.language = language;
    localStorage.setItem(STORAGE_KEY, language);
  }
}

/** `words.t.shell.model`: reactive, in markup and in `$derived`. */
export const words = new Words();

/** The texts of a panel in the chosen language: `translate(texts).title`, reactive as well. */
export function translate<T>(texts: { en: T; zh: Translation<T> }): Translation<T> {
  return words.language === "zh" ? texts.zh : (texts.en as Translation<T>);
}
