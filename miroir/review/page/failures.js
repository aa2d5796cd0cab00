// Episodes that failed alike, grouped without a model: first unmet check, last error, how it ended.

const MOST_CHIPS = 36;

const failuresView = {
  mount(main) {
    fill(
      main,
      h("h1", { tabindex: "-1" }, "Failures"),
      toolbar("failures"),
      h(
        "p",
        { class: "muted" },
        "Episodes that failed alike: the first harm or unmet check, the last tool error without details, how it ended.",
      ),
      h("div", { class: "groups" }),
    );
    this.update();
  },
  update() {
    updateToolbar();
    const box = document.querySelector(".groups");
    if (INDEX.blind && rows.some(notes.hidden))
      return fill(box, h("p", { class: "empty" }, "Failures are grouped when every grade is judged."));
    const groups = grouped(filtered());
    return fill(
      box,
      groups.length
        ? groups.map(groupCard)
        : h("p", { class: "empty" }, "No failure among the episodes that pass the filters."),
    );
  },
};

/** The rows that have a reason, by what was first at fault, the largest group first. */
function grouped(among) {
  return gathered(
    among.filter((row) => row.reason && !notes.hidden(row)),
    (row) => reasonText(row.reason),
  );
}

function gathered(among, nameOf) {
  const groups = new Map();
  for (const row of among) {
    const name = nameOf(row);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(row);
  }
  const found = [...groups].map(([name, group]) => ({ name, rows: group }));
  return found.sort((a, b) => b.rows.length - a.rows.length || (a.name < b.name ? -1 : 1));
}

/** A group, and within it a line for each last error and ending. */
function groupCard({ name, rows: group }) {
  const count = new Set(group.map((row) => row.task)).size;
  const kinds = gathered(group, ({ reason: [, error, ended] }) =>
    [error && error !== name ? `last error: ${error}` : "no tool error", endedWords(ended)].join(" · "),
  );
  return h(
    "section",
    { class: "card group", "aria-label": name },
    h(
      "div",
      { class: "cardhead" },
      h("span", { class: "big" }, digits(group.length)),
      h("h2", {}, name),
      h("span", { class: "muted" }, many(count, "task")),
      h("a", { class: "button", href: link({ view: "episodes", reason: name }, listState()) }, "List"),
    ),
    kinds.map((kind) =>
      h(
        "div",
        { class: "kind" },
        h(
          "div",
          { class: "chips" },
          kind.rows.slice(0, MOST_CHIPS).map((row) => chip(row)),
          kind.rows.length > MOST_CHIPS
            ? h("span", { class: "muted small" }, `+${kind.rows.length - MOST_CHIPS}`)
            : null,
        ),
        h("p", { class: "muted small" }, kind.name),
      ),
    ),
  );
}
