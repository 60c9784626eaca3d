import type { Texts } from "../index.svelte";

export const predicts: Texts["predicts"] = {
  tab: "预测",
  where: {
    next: (token) => `“${token}”之后`,
    masked: (token) => `“${token}”处`,
    tag: (token) => `“${token}”`,
    classify: () => "整段文本",
    span: (_, end) => (end ? "答案的结尾" : "答案的开头"),
  },
  answer: "答案的",
  ends: { start: "开头", end: "结尾" },
  best: "最可能的",
};
