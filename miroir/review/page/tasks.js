// The lists: tasks with a chip for each rollout, and single episodes.

let list = null; // the list that is shown
let lastFocus = { view: "", at: -1, scroll: 0 };

const tasksView = { mount: (main) => mountList(main, "tasks"), update: () => updateList("tasks") };
const episodesView = { mount: (main) => mountList(main, "episodes"), update: () => updateList("episodes") };

function mountList(main, view) {
  list = view === "tasks" ? new VirtualList("Tasks", taskRow) : new VirtualList("Episodes", episodeRow);
  list.element.classList.add(view);
  const title = view === "tasks" ? "Tasks" : "Episodes";
  fill(
    main,
    h("h1", { class: "unseen", tabindex: "-1" }, title),
    view === "tasks" ? overview() : null,
    toolbar(view),
    h("p", { class: "found muted", role: "status" }),
    list.element,
  );
  updateList(view);
  if (lastFocus.view !== view) return;
  scrollTo(0, lastFocus.scroll);
  list.current = lastFocus.at;
  list.update();
}

/** Keep the place in the list for when the reader comes back. */
function leaveList() {
  if (list?.element.isConnected) lastFocus = { view: state.view || "tasks", at: list.current, scroll: scrollY };
}

function updateList(view) {
  updateToolbar();
  const shown = filtered();
  const kept = new Set(shown);
  const items = view === "tasks" ? ordered([...new Set(shown.map((row) => row.task))], view) : ordered(shown, view);
  list.kept = kept;
  list.set(items);
  const counts = view === "tasks" ? `${digits(items.length)} of ${many(tasks.length, "task")}, ` : "";
  const pending = search.left ? `; still searching ${many(search.left, "record")}` : "";
  const elsewhere =
    INDEX.pages.length && search.term ? "; words inside records are found on the pages that hold them" : "";
  fill(
    document.querySelector(".found"),
    `${counts}${digits(shown.length)} of ${many(rows.length, "episode")}${pending}${elsewhere}`,
  );
  if (!items.length) put(document.querySelector(".found"), ". ", nothing());
}

function nothing() {
  return h(
    "a",
    { href: link(Object.fromEntries(FILTERS.map((name) => [name, ""]))) },
    "Nothing passes the filters: clear them",
  );
}

/** What a team lead asks first: how many, how they ended, why they failed. */
function overview() {
  const faults = grouped(rows).slice(0, 5);
  const most = faults.length ? faults[0].rows.length : 1;
  return h(
    "section",
    { class: "overview", "aria-label": "Overview" },
    h(
      "div",
      { class: "card" },
      h("h2", {}, "How they ended"),
      outcomeBar(rows),
      h("div", { class: "outcomes", role: "group", "aria-label": "Show only" }, SHOWN.map(outcomeButton)),
      h("p", { class: "muted small" }, sentence()),
      h("p", { class: "muted small" }, medians()),
    ),
    faults.length
      ? h(
          "div",
          { class: "card" },
          h("h2", {}, "Why they failed"),
          h(
            "ul",
            { class: "reasons" },
            faults.map(({ name, rows: group }) =>
              h(
                "li",
                {},
                h(
                  "a",
                  { href: link({ reason: name }) },
                  meter(group.length / most),
                  h("span", { class: "count" }, digits(group.length)),
                  h("span", { class: "what" }, name),
                ),
              ),
            ),
          ),
          h("p", { class: "small" }, h("a", { href: link({ view: "failures" }, listState()) }, "All failure groups")),
        )
      : null,
  );
}

function sentence() {
  if (INDEX.blind && rows.some(notes.hidden))
    return `${many(INDEX.queue.length, "episode")} to judge; grades are hidden until then.`;
  const always = tasks.filter((task) => task.rows.every((row) => row.outcome === "success")).length;
  const never = tasks.filter((task) => task.rows.every((row) => row.outcome !== "success")).length;
  const sometimes = tasks.length - always - never;
  return `${many(tasks.length, "task")}: ${always} always solved, ${sometimes} sometimes, ${never} never.`;
}

function medians() {
  const middle = (name) => {
    const values = rows
      .map((row) => row[name])
      .filter((value) => value !== null)
      .sort((a, b) => a - b);
    return values[Math.floor(values.length / 2)];
  };
  const who = INDEX.agents.filter(Boolean);
  const players = who.length > 3 ? `${who.slice(0, 3).join(", ")} and ${who.length - 3} more` : who.join(", ");
  const typical = `Median ${many(middle("steps") ?? 0, "step")}, ${duration(middle("seconds"))}.`;
  return players ? `${typical} Played by ${players}.` : typical;
}

function meter(part) {
  const bar = h("span", { class: "meter", "aria-hidden": "true" });
  bar.style.setProperty("--part", part);
  return bar;
}

function outcomeButton(kind) {
  const button = h("button", {
    type: "button",
    class: "outcome",
    "data-outcome": kind,
    onclick: () => flipOutcome(kind),
  });
  button.refresh = () => {
    const passing = rows.filter(filterOf(state, "show"));
    const count = passing.filter(
      (row) => (kind === "harm" ? row.harm : row.outcome === kind) && !notes.hidden(row),
    ).length;
    button.setAttribute("aria-pressed", (state.show ?? "").split(",").includes(kind));
    fill(
      button,
      mark(kind),
      h("b", {}, digits(count)),
      h("span", {}, kind, " ", h("span", { class: "muted" }, share(count, passing.length))),
    );
  };
  return button;
}

function flipOutcome(kind) {
  const shown = (state.show ?? "").split(",").filter(Boolean);
  go(
    { show: (shown.includes(kind) ? shown.filter((one) => one !== kind) : [...shown, kind]).join(",") },
    { quietly: true },
  );
}

/** The filters of a list; they stay in place while they are used. */
function toolbar(view) {
  const box = h("input", {
    type: "search",
    id: "search",
    value: state.q ?? "",
    placeholder: "Search tasks, errors, steps…",
    "aria-label": "Search",
    oninput: () => searchFor(box.value),
  });
  const choices = [
    ["class", "Class", [...new Set(tasks.map((task) => task.class ?? "none"))]],
    ["tag", "Tag", [...new Set(tasks.flatMap((task) => task.tags))].sort()],
    ["agent", "Agent", INDEX.agents],
    ["reviewed", "Reviewed", ["yes", "no"]],
  ].filter(([name, , values]) => name === "reviewed" || values.length > 1);
  return h(
    "div",
    { class: "toolbar", role: "search" },
    box,
    view === "tasks"
      ? null
      : h("div", { class: "row", role: "group", "aria-label": "Show only" }, SHOWN.map(outcomeButton)),
    choices.map(([name, title, values]) =>
      picker(name, title, [["", "any"], ...values.map((value) => [value, value.replaceAll("_", " ")])]),
    ),
    !ORDERS[view]
      ? null
      : picker(
          "sort",
          "Sort",
          ORDERS[view].map(([name, title], at) => [at ? name : "", title]),
        ),
    h("button", { type: "button", class: "clear", onclick: () => clearFilters() }, "Clear"),
  );
}

function picker(name, title, options) {
  const select = h(
    "select",
    { "data-filter": name, onchange: () => go({ [name]: select.value }, { quietly: true }) },
    options.map(([value, text]) => h("option", { value }, text)),
  );
  return h("label", { class: "pick" }, h("span", { class: "small muted" }, title), select);
}

function clearFilters() {
  document.getElementById("search").value = "";
  find("", () => {});
  go(Object.fromEntries(FILTERS.map((name) => [name, ""])), { quietly: true });
}

async function searchFor(term) {
  const told = () => state.q === term.trim() && render();
  const finding = find(term, told);
  go({ q: term.trim() }, { quietly: true });
  await finding;
}

function updateToolbar() {
  for (const button of document.querySelectorAll(".outcome")) button.refresh();
  for (const select of document.querySelectorAll("[data-filter]")) select.value = state[select.dataset.filter] ?? "";
  const used = FILTERS.some((name) => name !== "sort" && state[name]);
  document.querySelector(".clear").hidden = !used;
}

function taskRow(task) {
  const [worst] = [...grouped(task.rows.filter((row) => row.outcome !== "void")), ...grouped(task.rows)];
  const good = task.rows.filter((row) => row.outcome === "success").length;
  const graded = task.rows.filter((row) => row.outcome !== "void").length;
  const pair = task.pair ? [rows[task.pair[0]], rows[task.pair[1]]] : null;
  const hidden = task.rows.some(notes.hidden);
  const first = task.rows.find((row) => row.outcome === "failure" || row.harm) ?? task.rows[0];
  return [
    h(
      "div",
      { class: "name" },
      h("a", { class: "title", href: episodeLink(hidden ? task.rows[0] : first) }, task.id),
      " ",
      classPill(task),
    ),
    h("div", { class: "what muted" }, task.instruction),
    h(
      "div",
      { class: "chips" },
      task.rows.slice(0, 24).map((row) => chip(row, !list.kept.has(row))),
      task.rows.length > 24 ? h("span", { class: "small muted" }, `+${task.rows.length - 24}`) : null,
    ),
    h("div", { class: "score" }, hidden ? "" : `${good}/${graded}`),
    h("div", { class: "why" }, worst ? h("span", { class: "reason" }, worst.name) : null),
    h(
      "div",
      { class: "parts" },
      hidden || !pair || pair[0].page !== pair[1].page
        ? null
        : h("a", { href: pairLink(...pair) }, `Compare: they part at step ${task.pair[2] + 1}`),
    ),
  ];
}

function episodeRow(row) {
  const hidden = notes.hidden(row);
  return [
    h("div", { class: "mark" }, chip(row)),
    h(
      "div",
      { class: "name" },
      h("a", { class: "title", href: episodeLink(row) }, row.task.id),
      " ",
      h("span", { class: "muted" }, rollout(row)),
    ),
    h("div", { class: "score" }, hidden ? "" : digits(row.reward)),
    h("div", { class: "why" }, hidden || !row.reason ? null : h("span", { class: "reason" }, reasonText(row.reason))),
    h("div", { class: "num" }, many(row.steps, "step")),
    h("div", { class: "num" }, row.errors ? many(row.errors, "error") : ""),
    h("div", { class: "num" }, duration(row.seconds)),
  ];
}
