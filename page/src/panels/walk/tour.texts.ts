import type { Translation } from "../../text/index.svelte";

/** The guided tour: a dozen stops with a sentence or three each. */

export const en = {
  label: "Guided tour",
  of: (at: number, all: number) => `Stop ${at} of ${all}`,
  next: "Next",
  back: "Back",
  end: "End the tour",
  begin: "Take the tour",
  later: "Not now",
  done: "Look around",
  stops: {
    welcome: {
      title: "Welcome inside",
      text: "This is a Transformer, made of glass: every number it computes can be seen. In a dozen stops you will know how it turns a text into a prediction. The text above is yours to change at any time.",
    },
    tokens: {
      title: "Text becomes tokens",
      text: "First the text is cut into pieces that the model knows, each with a number. Select one, here or under the text: everything on this page then looks at that token.",
    },
    embed: {
      title: "Tokens become vectors",
      text: "Each token is looked up in a table and becomes a row of numbers. Blue-green is positive, orange negative. These are the model's real numbers, not a drawing of them.",
    },
    block: {
      title: "Into a block",
      text: "All the work happens in blocks like this one. Follow a token's lane from left to right; the bow over the top is the stream, which carries everything past and picks up what is found.",
    },
    q: {
      title: "Every token asks a question",
      text: "Queries ask, keys answer, values are handed over. All three are made of a token's vector by matrices that the model has learned.",
    },
    dot: {
      title: "Who fits whom?",
      text: "Every query is multiplied with every key. Click a cell of the large square: below it the sum is spelled out, number by number.",
    },
    softmax: {
      title: "Attention",
      text: "The scores of a row become shares of 100%. Read along a row: this is where that token looks. Try other heads and layers above; each looks for something else.",
    },
    residual: {
      title: "Added, not replaced",
      text: "What was collected is added to the token's vector. So a token gathers, block by block, what the text around it means.",
    },
    ffn_act: {
      title: "Then each token thinks",
      text: "The feed-forward part looks at one token at a time with many detectors. Few of them fire; those that do write what they know into the stream.",
    },
    stack: {
      title: "Block after block",
      text: "The same two steps again and again, each time with other weights. Here is your token after every block: watch it change.",
    },
    choice: {
      title: "The choice",
      text: "The last vector is compared with all tokens of the vocabulary, and the best one is chosen. Then everything begins again with one token more: that is how a text is written.",
    },
    label: {
      title: "The choice",
      text: "The model's head reads the last vectors and gives each thing it can say a score: its labels, or the places where an answer may stand. The scores become probabilities, and the best one is what the model says.",
    },
    end: {
      title: "Now it is yours",
      text: "Go step by step with Next, click what you want to see closer, press Escape to step back. The other panels ask further: where each head looks, what the layers think, what happens when you change something.",
    },
  },
};

export const zh: Translation<typeof en> = {
  label: "导览",
  of: (at, all) => `第 ${at} 站，共 ${all} 站`,
  next: "下一站",
  back: "上一站",
  end: "结束导览",
  begin: "开始导览",
  later: "以后再说",
  done: "自己看看",
  stops: {
    welcome: {
      title: "欢迎进来",
      text: "这是一个玻璃做成的 Transformer：它算出的每个数都看得见。走过十来站，你就会明白它怎样由一段文本得到预测。上面的文本随时可以换成你自己的。",
    },
    tokens: {
      title: "文本变成词元",
      text: "文本先被切成模型认识的片段，每个都有编号。在这里或文本下方选中一个：整个页面就会看着这个词元。",
    },
    embed: {
      title: "词元变成向量",
      text: "每个词元在表里查到一行数字。青色为正，橙色为负。这些是模型真实的数，不是示意图。",
    },
    block: {
      title: "走进一个块",
      text: "所有的工作都在这样的块里完成。从左到右跟着一个词元的水道走；上方的弧线是残差流，它带着一切前行，并收下新的发现。",
    },
    q: {
      title: "每个词元都提一个问题",
      text: "查询提问，键应答，值被交出。三者都由词元的向量经过学到的矩阵得到。",
    },
    dot: {
      title: "谁和谁合得来？",
      text: "每个查询与每个键相乘。点击大方阵里的一格：下面会把这个和逐个数字写出来。",
    },
    softmax: {
      title: "注意力",
      text: "一行分数变成加起来等于 100% 的份额。沿着一行读：那个词元就看向这些地方。试试上方其他的头和层，它们各找各的。",
    },
    residual: {
      title: "相加，而不是替换",
      text: "收集到的东西加到词元的向量上。于是一块接一块，词元逐渐汇集起周围文本的含义。",
    },
    ffn_act: {
      title: "然后各自思考",
      text: "前馈部分一次只看一个词元，用许多探测器。触发的不多；触发的就把它知道的写进残差流。",
    },
    stack: {
      title: "一块接一块",
      text: "同样的两步一遍又一遍，每次用不同的权重。这是你的词元经过每一块之后的样子：看它怎样变化。",
    },
    choice: {
      title: "选择",
      text: "最后的向量与词表里所有词元比较，选出最合适的。然后带着多出的一个词元从头再来：文本就是这样写出来的。",
    },
    label: {
      title: "选择",
      text: "模型的输出头读取最后的向量，给它能说的每样东西一个分数：各个标签，或答案可能所在的位置。分数变成概率，最好的那个就是模型的回答。",
    },
    end: {
      title: "现在交给你了",
      text: "用“下一步”逐步前进，想细看什么就点什么，按 Escape 退后一步。其他面板可以继续追问：每个头看哪里，各层怎么想，改动之后会怎样。",
    },
  },
};
