// What an eye finds wrong on a page. Each function returns a list of sentences; an empty one is good.
(() => {
  const SEEN = { checkOpacity: true, checkVisibilityCSS: true };
  const LARGE = 24, LARGE_BOLD = 18.66;  // pixels: WCAG 2.2, 1.4.3
  const SIGN = /^[^\p{L}\p{N}]+$/u;  // graphics rather than words: WCAG 2.2, 1.4.11
  const TOLERANCE = 1.5;  // pixels: boxes of texts hold empty space

  const canvas = document.createElementNS("http://www.w3.org/1999/xhtml", "canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const known = new Map();

  /** Red, green, blue (0 to 255) and alpha (0 to 1) of a CSS colour in any notation. */
  function rgba(colour) {
    if (!known.has(colour)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = pen.getImageData(0, 0, 1, 1).data;
      known.set(colour, [red, green, blue, alpha / 255]);
    }
    return known.get(colour);
  }

  function over([red, green, blue, alpha], below) {
    return [red, green, blue].map((part, i) => alpha * part + (1 - alpha) * below[i]);
  }

  function luminance(colour) {
    const [red, green, blue] = colour.map(part => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  }

  function contrast(one, other) {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  }

  function* ancestors(element) {
    for (let at = element; at; at = at.parentElement) yield at;
  }

  /** The colour behind an element's text: the backgrounds around it, the innermost on top. */
  function background(element) {
    const layers = [];
    for (const at of ancestors(element)) {
      const layer = rgba(getComputedStyle(at).backgroundColor);
      if (layer[3] > 0) layers.push(layer);
      if (layer[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  }

  /** The colour behind the middle of a text in an SVG: what is painted there below all texts. */
  function painted(element) {
    const box = element.getBoundingClientRect();
    const under = document.elementsFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    const shape = under.find(found => !found.closest("text") && rgba(getComputedStyle(found).fill)[3] === 1);
    return shape && shape.localName !== "svg" ? over(rgba(getComputedStyle(shape).fill), [255, 255, 255]) : null;
  }

  function* texts(root) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const text = walker.currentNode.data.trim(), element = walker.currentNode.parentElement;
      if (!text || element.closest("script, style, noscript, title, desc, option") || !element.checkVisibility(SEEN)) continue;
      const box = element.getBoundingClientRect();
      if (box.width > 1 && box.height > 1) yield [text, element];
    }
  }

  /** Texts whose contrast is below WCAG's: 4.5, for large ones and for signs 3. */
  function unreadable(root) {
    const found = new Map();
    for (const [text, element] of texts(root)) {
      const style = getComputedStyle(element), svg = element.closest("svg text");
      const behind = svg ? painted(element) : background(element);
      if (behind === null) continue;
      const written = svg ? style.fill : style.color;
      let colour = rgba(written);
      for (const at of ancestors(element)) colour = [...colour.slice(0, 3), colour[3] * getComputedStyle(at).opacity];
      const size = parseFloat(style.fontSize), bold = style.fontWeight >= 700;
      const least = size >= LARGE || (bold && size >= LARGE_BOLD) || SIGN.test(text) ? 3 : 4.5;
      const ratio = contrast(over(colour, behind), behind);
      const what = `contrast ${ratio.toFixed(2)}: ${written} on rgb(${behind.map(Math.round)})`;
      if (ratio < least && !found.has(what)) found.set(what, `${what} in "${text.slice(0, 60)}"`);
    }
    return [...found.values()];
  }

  const about = element => `<${element.localName} class="${element.getAttribute("class") || ""}">`;
  const scrolls = element => /auto|scroll/.test(getComputedStyle(element).overflowX);

  /** What is cut at the right with no way to see it, and drawings (not formulas) that one would have to scroll. */
  function cut(root) {
    const found = [];
    for (const element of root.querySelectorAll("*")) {
      if (!element.checkVisibility(SEEN) || element.closest("svg svg, svg *")) continue;
      const box = element.getBoundingClientRect();
      if (box.width <= 1 || box.height <= 1) continue;
      const hides = /hidden|clip/.test(getComputedStyle(element).overflowX);
      if (hides && element.scrollWidth > element.clientWidth + 1) found.push(`${about(element)} hides a part of its width`);
      const frame = [...ancestors(element.parentElement)].find(scrolls);
      const right = frame ? frame.getBoundingClientRect().right : innerWidth;
      const whole = !frame || (element.localName === "svg" && !element.closest("div.math"));
      if (whole && box.right > right + 1) {
        found.push(`${about(element)} ends at ${Math.round(box.right)} of ${Math.round(right)} pixels`);
      }
    }
    return [...new Set(found)];
  }

  /** Tables and printed lines that are wider than their place, so that one has to scroll sideways. */
  function wide(root) {
    return [...root.querySelectorAll("table, .stream pre")].flatMap(element => {
      const frame = [...ancestors(element)].find(scrolls);
      const more = frame && element.checkVisibility(SEEN) ? frame.scrollWidth - frame.clientWidth : 0;
      return more > 1 ? [`${about(element)} "${element.textContent.trim().slice(0, 40)}" is ${more} pixels too wide`] : [];
    });
  }

  /** Pictures that did not load. */
  function missing(root) {
    return [...root.querySelectorAll("img")].flatMap(image =>
      image.complete && image.naturalWidth ? [] : [`no picture from ${image.getAttribute("src")}`]);
  }

  /** Elements that HTML does not know: a `<name>` that was meant as text. */
  function unknown(root) {
    return [...root.querySelectorAll("*")].flatMap(element =>
      element instanceof HTMLUnknownElement ? [`<${element.localName}> was taken for HTML`] : []);
  }

  /** Texts of an SVG that overlap, or leave it. */
  function overlapping(svg) {
    const frame = svg.getBoundingClientRect(), found = [];
    const boxes = [...svg.querySelectorAll("text")].map(text => [text.textContent.trim(), text.getBoundingClientRect()]);
    boxes.forEach(([text, box], place) => {
      const leaves = Math.max(frame.x - box.x, frame.y - box.y, box.right - frame.right, box.bottom - frame.bottom);
      if (leaves > TOLERANCE) found.push(`"${text}" leaves the picture by ${leaves.toFixed(1)} pixels`);
      for (const [other, its] of boxes.slice(place + 1)) {
        const width = Math.min(box.right, its.right) - Math.max(box.x, its.x);
        const height = Math.min(box.bottom, its.bottom) - Math.max(box.y, its.y);
        if (Math.min(width, height) > TOLERANCE) found.push(`"${text}" and "${other}" overlap`);
      }
    });
    return found;
  }

  return { unreadable, cut, wide, missing, unknown, overlapping };
})()
