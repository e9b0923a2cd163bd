// Nodes of the page.  Every text goes in as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** Return an element; attributes that are functions listen to events, those that are false or null are left out. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Return an element of a drawing. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Put nodes and texts in the place of what an element has; null and false are left out. */
export function replace(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((one) => ![null, undefined, false].includes(one)));
  return node;
}

/** Set the text of an element where it differs, so that nothing is drawn again for nothing. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (![null, undefined, false].includes(value)) node.setAttribute(name, value === true ? "" : value);
  }
  return replace(node, ...children);
}
