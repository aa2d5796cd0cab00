// Arguments, results and messages as people read them: an outline in place of JSON, long texts folded.

const DEEPEST = 12; // levels of an outline; what lies deeper stands on one line as JSON
const INLINE = 88; // characters of a list that stays on one line
const LINE = 110; // characters that count as a line where a text has none
const PIECE = 100_000; // characters that one press of a button unfolds

/** A JSON value as indented text, strings with their own line breaks. */
function outline(value, level = 0) {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null) return String(value);
  if (level >= DEEPEST) return compact(value);
  const list = Array.isArray(value);
  const flat = list ? compactList(value) : Object.keys(value).length ? null : "{}";
  if (flat !== null) return flat;
  const parts = list ? value.map((item) => ["-", item]) : Object.entries(value).map(([key, item]) => [`${key}:`, item]);
  return parts.map(([key, item]) => `${key}${placed(item, level, list)}`).join("\n");
}

function placed(item, level, inList) {
  const scalar = typeof item !== "object" || item === null;
  const written = scalar ? scalarText(item) : outline(item, level + 1);
  if (inList) return ` ${written.replaceAll("\n", "\n  ")}`;
  const block = written.includes("\n") || (!scalar && !compactShape(item));
  return block ? `\n  ${written.replaceAll("\n", "\n  ")}` : ` ${written}`;
}

function compactShape(item) {
  return Array.isArray(item) ? compactList(item) !== null : Object.keys(item).length === 0;
}

function scalarText(item) {
  if (typeof item !== "string") return String(item);
  return item === "" || /^\s|\s$|^(true|false|null|-?\d[\d.eE+-]*)$/.test(item) ? JSON.stringify(item) : item;
}

/** A short list of scalars on one line; null where it is neither. */
function compactList(list) {
  if (list.some((item) => typeof item === "object" && item !== null)) return list.length ? null : "[]";
  if (list.length > INLINE) return null;
  const text = `[${list.map(scalarText).join(", ")}]`;
  return text.length <= INLINE && !text.includes("\n") ? text : null;
}

function compact(value) {
  try {
    return JSON.stringify(value);
  } catch {
    return "… nested too deeply to be shown";
  }
}

/** Arguments or a result in a line of at most `most` characters. */
function preview(value, most = 200) {
  const text = isObject(value)
    ? Object.entries(value)
        .map(([key, item]) => `${key}: ${compactText(item, most)}`)
        .join(", ")
    : compactText(value, most);
  const line = text
    .slice(0, 4 * most)
    .replace(/\s+/g, " ")
    .trim();
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

function compactText(value, most) {
  if (typeof value === "string") return value.slice(0, 4 * most);
  const text = compact(value) ?? "";
  return text.slice(0, 4 * most);
}

/** A text in a block, folded to so many lines where it is longer. */
function folded(text, { lines = 8, kind = "" } = {}) {
  const short = cutAt(text, lines);
  const block = h("pre", { class: `text ${kind}` });
  const found = state.q ? text.toLowerCase().indexOf(state.q.trim().toLowerCase()) : -1;
  let shown = found >= short ? Math.min(text.length, found + PIECE) : short;
  fill(block, highlighted(text.slice(0, shown)));
  if (short >= text.length) return block;
  const button = h("button", { class: "unfold", type: "button", onclick: unfold });
  const box = h("div", { class: "folded" }, block, button);
  label();
  return box;

  function unfold() {
    shown = shown >= text.length ? short : Math.min(text.length, shown + PIECE);
    fill(block, highlighted(text.slice(0, shown)));
    label();
  }

  function label() {
    const left = text.length - shown;
    const all =
      left <= PIECE
        ? `Show all ${size(text.length)} characters`
        : `Show ${size(PIECE)} more of ${size(text.length)} characters`;
    button.setAttribute("aria-expanded", left === 0);
    fill(button, left ? all : "Show less");
  }
}

/** Where a text is cut to stand in so many lines. */
function cutAt(text, lines) {
  let at = 0;
  let used = 0;
  while (used < lines && at < text.length) {
    const end = text.indexOf("\n", at);
    const stop = end < 0 ? text.length : end;
    const taken = Math.max(1, Math.ceil((stop - at) / LINE));
    if (used + taken > lines) return at + (lines - used) * LINE;
    used += taken;
    at = stop + 1;
  }
  const rest = text.length - at;
  return rest <= 2 * LINE && rest >= 0 && !text.slice(at).includes("\n") ? text.length : Math.min(at, text.length);
}

/** The text with the words that were searched for marked. */
function highlighted(text) {
  const wanted = (state.q ?? "").trim().toLowerCase();
  if (!wanted || text.length > 2 * PIECE) return [text];
  const lower = text.toLowerCase();
  if (lower.length !== text.length) return [text];
  const parts = [];
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), h("mark", {}, text.slice(at, at + wanted.length)));
    from = at + wanted.length;
  }
  return [...parts, text.slice(from)];
}

/** A value of a record in a block, folded. */
function block(value, options) {
  return folded(outline(value), options);
}
