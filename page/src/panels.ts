/** The panels of the page: every folder of panels/ with a Panel.svelte and a texts.ts. */
import type { Component } from "svelte";
import { translate } from "./text/index.svelte";
import { urlState } from "./url_state.svelte";

/** What the module script of a Panel.svelte exports as `options`. */
export interface PanelOptions {
  /** The tabs are sorted by this number. */
  order: number;
  /** Whether the panel depends on the selected layer and head; default: it does. */
  usesSelection?: () => boolean;
  /** Whether the panel shows what the model does with the text; default: it does. */
  usesText?: boolean;
  /** The label of the tab, where it is not the `tab` of texts.ts. */
  label?: () => string | undefined;
}

export interface Panel {
  /** The name of the folder, as in the address. */
  name: string;
  View: Component;
  label: () => string;
  usesSelection: () => boolean;
  usesText: boolean;
}

type PanelModule = { default: Component; options: PanelOptions };
type PanelTexts = { en: { tab: string }; zh: { tab: string } };

const modules = import.meta.glob<PanelModule>("./panels/*/Panel.svelte", { eager: true });
const texts = import.meta.glob<PanelTexts>("./panels/*/texts.ts", { eager: true });

function panelOf(path: string): Panel {
  const folder = path.slice(0, path.lastIndexOf("/"));
  const { default: View, options } = modules[path];
  return {
    name: folder.slice(folder.lastIndexOf("/") + 1),
    View,
    label: () => options.label?.() ?? translate(texts[`${folder}/texts.ts`]).tab,
    usesSelection: options.usesSelection ?? (() => true),
    usesText: options.usesText ?? true,
  };
}

export const PANELS: Panel[] = Object.keys(modules)
  .sort((a, b) => modules[a].options.order - modules[b].options.order)
  .map(panelOf);

/** The panel that the address names, or the first. */
export function currentPanel(): Panel {
  return PANELS.find(({ name }) => name === urlState.panel) ?? PANELS[0];
}
