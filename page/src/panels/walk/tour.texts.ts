import type { Translation } from "../../text/index.svelte";

/** The guided tour: a dozen stops with a sentence or three each. */

export const en = {
  label: "Guided tour",
  of: (at: number, all: number) => `Step ${at} of ${all}`,
  next: "Next",
  back: "Back",
  end: "End the tour",
  begin: "Take the tour",
  later: "Not now",
  done: "Done",
  stops: {
    welcome: {
      title: "Welcome",
      text: "This page shows every number that a Transformer computes. The tour explains in a dozen steps how it computes a prediction from a text. You can change the text above at any time.",
    },
    tokens: {
      title: "Text becomes tokens",
      text: "The tokenizer splits the text into tokens, each with a number. Select one, here or under the text: the whole page then shows that token.",
    },
    embed: {
      title: "Tokens become vectors",
      text: "The embedding table has a row of numbers for each token. Blue-green is positive, orange negative. These are the real numbers of this model.",
    },
    block: {
      title: "A block",
      text: "A model is a sequence of blocks like this one. Follow the line of a token from left to right; the line at the top is the residual stream, to which each part adds its output.",
    },
    q: {
      title: "Queries, keys and values",
      text: "Each token has a query, a key and a value per head: its vector times three learned matrices. Queries and keys determine which tokens a token attends to; values are what it reads there.",
    },
    dot: {
      title: "Scores",
      text: "A score is the dot product of a query and a key. Click a cell of the large square: below it the sum is shown, number by number.",
    },
    softmax: {
      title: "Attention",
      text: "Softmax turns the scores of a row into attention weights that sum to 100%. A row shows which tokens that token attends to. Try other heads and layers above.",
    },
    residual: {
      title: "Added, not replaced",
      text: "The output of attention is added to the residual stream of the token. Block by block, the vector gets more information about the text around the token.",
    },
    ffn_act: {
      title: "Feed-forward layer",
      text: "The feed-forward layer processes one token at a time with many neurons. Few of them are active; these add their output to the residual stream.",
    },
    stack: {
      title: "Block after block",
      text: "All blocks have the same two parts with different weights. This is the selected token after every block.",
    },
    choice: {
      title: "The prediction",
      text: "The dot products of the last vector with the vectors of all tokens of the vocabulary give the probabilities; the most probable token is chosen. Then the computation is repeated with one more token: this is how a model generates text.",
    },
    label: {
      title: "The prediction",
      text: "The model's head computes a logit for each label, or for each position of an answer, from the last vectors. Logits become probabilities; the most probable outcome is the prediction.",
    },
    end: {
      title: "Next steps",
      text: "Use Next to go on step by step, click a part to enlarge it, press Escape to go back. Attention shows every head, Lens the prediction of each layer, Edit the effect of changes. Next token has sampling, beam search and the cache of keys and values; Compare has the steps of a training. In a translator the walkthrough has an encoder, too.",
    },
  },
};

export const zh: Translation<typeof en> = {
  label: "导览",
  of: (at, all) => `第 ${at} 步，共 ${all} 步`,
  next: "下一步",
  back: "上一步",
  end: "结束导览",
  begin: "开始导览",
  later: "以后再说",
  done: "完成",
  stops: {
    welcome: {
      title: "欢迎",
      text: "这个页面显示 Transformer 计算的每个数。导览用十来步说明它怎样由文本计算出预测。上面的文本随时可以更改。",
    },
    tokens: {
      title: "文本变成词元",
      text: "分词器把文本切成词元，每个都有编号。在这里或文本下方选中一个：整个页面就显示这个词元。",
    },
    embed: {
      title: "词元变成向量",
      text: "嵌入表中每个词元有一行数字。青色为正，橙色为负。这些是这个模型真实的数。",
    },
    block: {
      title: "一个块",
      text: "模型由一系列这样的块组成。从左到右看一个词元的线；上方的线是残差流，各部分的输出都加到它上面。",
    },
    q: {
      title: "查询、键和值",
      text: "每个词元在每个头中有查询、键和值：它的向量乘以三个学到的矩阵。查询和键决定词元关注哪些词元；值是它读取的内容。",
    },
    dot: {
      title: "分数",
      text: "分数是查询与键的点积。点击大方阵里的一格：下面逐个数字显示这个和。",
    },
    softmax: {
      title: "注意力",
      text: "Softmax 把一行分数变成总和为 100% 的注意力权重。一行显示该词元关注哪些词元。可以试试上方其他的头和层。",
    },
    residual: {
      title: "相加，而不是替换",
      text: "注意力的输出加到词元的残差流上。一块接一块，向量获得更多周围文本的信息。",
    },
    ffn_act: {
      title: "前馈层",
      text: "前馈层用许多神经元分别处理每个词元。活跃的不多；它们的输出加到残差流上。",
    },
    stack: {
      title: "一块接一块",
      text: "所有块都有同样的两部分，权重不同。这是选中的词元在每个块之后的向量。",
    },
    choice: {
      title: "预测",
      text: "最后的向量与词表中所有词元向量的点积给出概率，选出概率最大的词元。然后带着新词元重复计算：模型就是这样生成文本的。",
    },
    label: {
      title: "预测",
      text: "模型的输出头由最后的向量为每个标签或答案的每个位置计算 logit。logit 变成概率；概率最大的结果就是预测。",
    },
    end: {
      title: "接下来",
      text: "用“下一步”逐步前进，点击某部分可放大，按 Escape 返回。“注意力”显示每个头，“透镜”显示各层的预测，“编辑”显示改动的效果。“下一个词元”有采样、束搜索和键值缓存；“比较”有训练的各个步骤。翻译模型的逐步计算还包括编码器。",
    },
  },
};
