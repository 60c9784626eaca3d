// Watches that no old answer is shown as the answer to a new question: `watch.begin()` notes what
// the page tells, `watch.look(when)` looks while answers are awaited, and `watch.end()` gives what
// was wrong. What is dimmed must tell what it told before it was dimmed. What is not dimmed must
// tell what it tells at the end, or less; a caption may still be that of the answer before.
() => {
    // They tell what is asked for, or that something is awaited.
    const CONTROLS = "[data-live], [role=radiogroup], [role=status], .tools, .side, .waiting"
        + ", output, select, textarea, input";
    const CAPTIONS = "h2, h3, h4, figcaption, header, nav, .label, .note, .tour, [data-finding]";
    const SHAPES = ["d", "x", "y", "width", "height", "cx", "cy", "x1", "x2", "y1", "y2"];

    const elementOf = (node) => (node.nodeType === Node.TEXT_NODE ? node.parentElement : node);
    const wanted = (node) => (node.nodeType === Node.ELEMENT_NODE && node.matches(CONTROLS)
        ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);

    /** What a node tells: a text, a label, what is painted, or the shapes of a drawing. */
    function toldBy(node) {
        if (node.nodeType === Node.TEXT_NODE) return node.data.trim();
        const shapes = node.localName === "svg" ? [...node.querySelectorAll("*")] : [];
        const drawn = shapes.map((one) => SHAPES.map((name) => one.getAttribute(name)).join());
        const painted = node.localName === "canvas" && node.width ? node.toDataURL() : "";
        return [node.ariaLabel ?? "", painted, ...drawn].filter(Boolean).join("\n");
    }

    /** What all nodes of the panel, and of the tokens above it, tell. */
    function read() {
        const told = new Map();
        for (const root of document.querySelectorAll("form .rows, #panel")) {
            const all = document.createTreeWalker(root, NodeFilter.SHOW_ALL, wanted);
            while (all.nextNode()) {
                const text = toldBy(all.currentNode);
                if (text) told.set(all.currentNode, text);
            }
        }
        return told;
    }

    /** The same for elements: all that the nodes inside tell. */
    function joined(told) {
        const whole = new Map();
        for (const [node, text] of told)
            for (let at = elementOf(node); at; at = at.parentElement)
                whole.set(at, [...(whole.get(at) ?? []), text]);
        return whole;
    }

    /** The largest dimmed element that a node is in. */
    function dimmed(node) {
        let found = null;
        for (let at = elementOf(node); at; at = at.parentElement)
            if (at.classList.contains("stale")) found = at;
        return found;
    }

    function place(node) {
        const names = [];
        for (let at = elementOf(node); at && at.id !== "panel"; at = at.parentElement)
            names.unshift([at.localName, ...at.classList].filter((name) => !/^s(velte)?-/.test(name)).join("."));
        return names.slice(-4).join(" ");
    }
    const short = (text = "nothing") => (text.length > 90 ? `${text.slice(0, 70)}... (${text.length})` : text);

    let before, parts, undimmed, wrong;
    window.watch = {
        begin() {
            before = read();
            parts = joined(before);
            [undimmed, wrong] = [[], []];
        },
        look(when) {
            const told = read();
            for (const [part, texts] of joined(told)) {
                const outer = dimmed(part);
                if (!outer) parts.set(part, texts);
                if (outer !== part) continue;
                const known = parts.get(part) ?? [];
                const at = texts.findIndex((text, index) => text !== known[index]);
                if (at >= 0 || texts.length !== known.length)
                    wrong.push(`${when}, ${place(part)} is dimmed and tells ${short(texts[at])}; it told ${short(known[at])}`);
            }
            if (document.querySelector("form .stale")) return; // the text before is still selected
            for (const [node, text] of told) if (!dimmed(node)) undimmed.push({ when, node, text });
        },
        end() {
            const now = read();
            const late = undimmed.filter(({ node, text }) => {
                const caption = elementOf(node).closest(CAPTIONS) || node.ariaLabel;
                const [lines, final] = [text, now.get(node) ?? ""].map((one) => one.split("\n"));
                return !lines.every((line) => final.includes(line)) && !(caption && before.get(node) === text);
            });
            return [
                ...wrong,
                ...late.map(({ when, node, text }) => `${when}, ${place(node)} is not dimmed and tells ${short(text)}; then it tells ${short(now.get(node))}`),
            ];
        },
        changed: () => [...read()].some(([node, text]) => before.get(node) !== text),
    };
}
