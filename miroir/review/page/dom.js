// Elements made of text nodes: nothing that a record holds is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. Props that begin with `on` are listeners, the others attributes; null and false leave one out. */
function h(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** An SVG element, made like `h`. */
function g(tag, props, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    const spelt = name.startsWith("aria-"); // their true and false are words
    if (value === null || value === undefined || (value === false && !spelt)) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true && !spelt ? "" : plain(String(value)));
  }
  put(element, ...children);
  return element;
}

/** Append children: nodes, lists of them, and texts, which are made plain. */
function put(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    element.append(child instanceof Node ? child : plain(String(child)));
  }
}

/** Put these children in place of those that are there. */
function fill(element, ...children) {
  element.replaceChildren();
  put(element, ...children);
}

/** A text for people who do not see the page change. */
function say(text) {
  fill(document.getElementById("said"), text);
}

const SEQUENCES = new RegExp(
  [
    String.raw`(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?`, // CSI: colours, cursor, screen
    String.raw`(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?`, // OSC, DCS, SOS, PM, APC
    String.raw`\x1b[ -/]*[0-~]?`,
  ].join("|"),
  "g",
);
const BREAKS = /\r\n|[\r\u2028\u2029]/g;
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;
const UNSEEN = /[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;
const ODD = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]/;

/** The text without escape sequences and control characters; unseen ones that reorder or hide are spelt <U+202E>. */
function plain(text) {
  if (!ODD.test(text)) return text;
  return text
    .replace(BREAKS, "\n")
    .replace(SEQUENCES, "")
    .replace(CONTROLS, "")
    .replace(UNSEEN, (found) => `<U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`)
    .toWellFormed();
}

const NUMBERS = [0, 1, 2, 3].map((places) => new Intl.NumberFormat("en-US", { maximumFractionDigits: places }));

/** A number as people write it: `1,234`, `0.75`, with at most three decimals. */
function digits(value, places = 2) {
  return value === null ? "–" : NUMBERS[places].format(value);
}

/** `1 step`, `12 steps`. */
function many(count, noun) {
  return `${digits(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Seconds in the unit that fits: `8 ms`, `1.4 s`, `3 min 05 s`. */
function duration(seconds) {
  if (typeof seconds !== "number") return "–";
  if (seconds < 1) return `${digits(seconds * 1000, seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 60) return `${digits(seconds, 1)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
}

/** A length in characters: `340`, `12 K`, `9.8 M`. */
function size(characters) {
  if (characters < 1000) return String(characters);
  return characters < 1e6 ? `${digits(characters / 1000, 0)} K` : `${digits(characters / 1e6, 1)} M`;
}

/** A part of a whole in percent. */
function share(part, whole) {
  return whole ? `${Math.round((100 * part) / whole)} %` : "–";
}
