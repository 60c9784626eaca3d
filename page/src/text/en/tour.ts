/** The guided tour: a dozen stops with a sentence or three each. */
export const tour = {
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
