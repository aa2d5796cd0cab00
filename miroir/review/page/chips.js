// How an episode's outcome looks, wherever it is shown.

const GLYPHS = { success: "✓", failure: "✗", void: "∅", harm: "!", unknown: "?" };

/** The look of a row: its outcome, or harm, or unknown where the grade is hidden. */
function look(row) {
  if (notes.hidden(row)) return "unknown";
  return row.harm ? "harm" : row.outcome;
}

/** A row's outcome in words. */
function outcome(row) {
  if (notes.hidden(row)) return "not judged yet";
  return row.harm ? `${row.outcome}, harm` : row.outcome;
}

/** A row's name among the rollouts of its task. */
function rollout(row) {
  return `trial ${row.trial}${row.attempt ? `, attempt ${row.attempt}` : ""}`;
}

/** A small link that shows how a rollout ended; `dim` where it does not pass the filters. */
function chip(row, dim = false) {
  const kind = look(row);
  const graded = row.reward !== null && kind !== "unknown";
  const name = `${rollout(row)}: ${outcome(row)}${graded ? `, reward ${digits(row.reward)}` : ""}`;
  const marks = [dim ? "dim" : "", notes.reviewed(row) ? "reviewed" : ""].join(" ");
  const element = h(
    "a",
    { class: `chip ${kind} ${marks}`, href: episodeLink(row), "aria-label": name, title: name },
    GLYPHS[kind],
  );
  if (graded) element.style.setProperty("--reward", Math.min(1, Math.max(0, row.reward)));
  return element;
}

/** The mark of an outcome, without a link. */
function mark(kind) {
  return h("span", { class: `chip ${kind}`, "aria-hidden": "true" }, GLYPHS[kind]);
}

/** A row's outcome as a badge: mark and words. */
function badge(row) {
  return h("span", { class: `badge ${look(row)}` }, mark(look(row)), outcome(row));
}

/** A task's class, where a calibration gave one. */
function classPill(task) {
  return task.class ? h("span", { class: `pill class-${task.class}` }, task.class.replaceAll("_", " ")) : null;
}

/** A reason in one line of words; the strongest part first. */
function reasonText([fault, error, ended]) {
  return fault || error || (ended ? `ended by ${ended}` : "no reason given");
}

/** A bar of shares, one piece an outcome. */
function outcomeBar(group) {
  const counts = SHOWN.map((kind) => [kind, group.filter((row) => look(row) === kind).length]).filter(
    ([, count]) => count,
  );
  const pieces = counts.map(([kind, count]) => {
    const piece = h("span", { class: kind });
    piece.style.flexGrow = count;
    return piece;
  });
  return h("div", { class: "bar", "aria-hidden": "true" }, pieces);
}
