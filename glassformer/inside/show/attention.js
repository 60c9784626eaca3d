// Attention, from bytes of [layer, head, query, key]: lines, a matrix, and all heads to choose from.
(root, data) => {
  const raw = Uint8Array.from(atob(data.cells), (c) => c.charCodeAt(0));
  const [layers, heads, queries, keys] = data.shape;
  const find = (what) => root.querySelector(what);
  const layer = find(".layer"), head = find(".head"), svg = find("svg"), big = find(".big");
  const color = () => getComputedStyle(root).getPropertyValue("--accent");
  const at = (l, h, q, k) => raw[((l * heads + h) * queries + q) * keys + k] / 255;
  const value = (l, h, q, k) => {
    if (h < heads) return at(l, h, q, k);
    let sum = 0;
    for (let i = 0; i < heads; i++) sum += at(l, i, q, k);
    return sum / heads;
  };
  for (let i = 0; i < layers; i++) layer.add(new Option(i, i));
  for (let i = 0; i < heads; i++) head.add(new Option(i, i));
  if (heads > 1) head.add(new Option("mean", heads));

  const paint = (canvas, l, h, size) => {
    canvas.width = keys;
    canvas.height = queries;
    canvas.style.width = keys * size + "px";
    canvas.style.height = queries * size + "px";
    const c = canvas.getContext("2d"), ink = color();
    for (let q = 0; q < queries; q++)
      for (let k = 0; k < keys; k++) {
        c.fillStyle = `rgba(${ink},${value(l, h, q, k)})`;
        c.fillRect(k, q, 1, 1);
      }
  };

  const element = (kind, settings) => {
    const made = document.createElementNS(svg.namespaceURI, kind);
    for (const [name, value] of Object.entries(settings)) made.setAttribute(name, value);
    return made;
  };
  let focus = null; // the query whose lines are shown alone
  const y = (i) => 14 + i * 16;
  const lines = (l, h) => {
    const parts = [];
    for (let q = 0; q < queries; q++)
      for (let k = 0; k < keys; k++) {
        const v = value(l, h, q, k);
        if (v < 0.02 || (focus !== null && focus !== q)) continue;
        const style = `stroke:rgba(${color()},${v});stroke-width:2`;
        parts.push(element("line", { x1: 150, y1: y(q) - 4, x2: 330, y2: y(k) - 4, style }));
      }
    data.query.forEach((word, i) => {
      const text = element("text", { x: 145, y: y(i), "text-anchor": "end", tabindex: 0 });
      text.textContent = word;
      text.style.cursor = "pointer";
      if (i === focus) text.style.fontWeight = "bold";
      text.onclick = () => { focus = focus === i ? null : i; show(); };
      text.onkeydown = (e) => { if (e.key === "Enter") text.onclick(); };
      parts.push(text);
    });
    data.key.forEach((word, i) => {
      const text = element("text", { x: 335, y: y(i) });
      text.textContent = word;
      parts.push(text);
    });
    svg.replaceChildren(...parts);
  };

  const show = () => {
    const l = +layer.value, h = +head.value;
    paint(big, l, h, Math.max(1, Math.min(14, Math.floor(380 / Math.max(queries, keys)))));
    for (const b of root.querySelectorAll("button"))
      b.setAttribute("aria-pressed", b.dataset.at === l + "," + h);
    if (svg) lines(l, h);
  };
  layer.onchange = head.onchange = show;
  big.onmousemove = (e) => {
    const box = big.getBoundingClientRect();
    const k = Math.min(keys - 1, Math.floor(((e.clientX - box.left) / box.width) * keys));
    const q = Math.min(queries - 1, Math.floor(((e.clientY - box.top) / box.height) * queries));
    const number = value(+layer.value, +head.value, q, k).toFixed(3);
    find(".said").textContent = `${data.query[q]} \u2192 ${data.key[k]}: ${number}`;
  };

  for (let l = 0; l < layers; l++) {
    const line = document.createElement("div");
    line.className = "line";
    for (let h = 0; h < heads; h++) {
      const button = document.createElement("button"), canvas = document.createElement("canvas");
      button.dataset.at = l + "," + h;
      button.title = `layer ${l}, head ${h}`;
      button.setAttribute("aria-label", button.title);
      button.append(canvas);
      button.onclick = () => { layer.value = l; head.value = h; show(); };
      paint(canvas, l, h, 40 / Math.max(queries, keys));
      line.append(button);
    }
    find(".all").append(line);
  }
  show();
}
