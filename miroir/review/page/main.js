// The page: what the address says is shown.

const PAGES = {
  tasks: tasksView,
  episodes: episodesView,
  failures: failuresView,
  charts: chartsView,
  notes: notesView,
};
let mounted = "";

/** Show what the state says: anew where it names another view, else brought up to date. */
function render() {
  const [name, view] = state.e ? [`e ${state.e}`, episodeView] : state.c ? [`c ${state.c}`, compareView] : listView();
  header();
  const shown = state.e ? (byId.get(state.e)?.task.id ?? "no episode") : state.c ? "two rollouts" : name;
  document.title = plain(`${shown} · ${INDEX.title}`);
  if (name === mounted) return view.update();
  mounted = name;
  return view.mount(document.getElementById("main"));
}

function listView() {
  const name = PAGES[state.view] ? state.view : INDEX.queue.length && !state.view ? "episodes" : "tasks";
  return [name, PAGES[name]];
}

function header() {
  const at = state.e || state.c ? "" : listView()[0];
  fill(
    document.getElementById("top"),
    h(
      "p",
      { class: "brand" },
      INDEX.home ? h("a", { href: INDEX.home }, "← Whole report") : h("b", {}, "Miroir"),
      h("span", { class: "muted" }, ` ${INDEX.title}`),
    ),
    h(
      "nav",
      { "aria-label": "Views" },
      VIEWS.map(([name, title]) =>
        h("a", { href: link({ view: name }, listState()), "aria-current": name === at ? "page" : null }, title),
      ),
    ),
    h(
      "div",
      { class: "tools" },
      h(
        "button",
        { type: "button", "aria-label": "Light or dark", title: "Light or dark (l)", onclick: turnTheme },
        "◐",
      ),
      h("button", { type: "button", "aria-label": "Keys", title: "Keys (?)", onclick: help }, "?"),
    ),
  );
}

function footer() {
  const said = [INDEX.loaded, INDEX.left_out, INDEX.redacted, `${INDEX.made_by}, ${INDEX.made_at}`];
  fill(
    document.getElementById("foot"),
    said.filter(Boolean).map((text) => h("p", {}, text)),
  );
}

/** All of a list goes to paper, up to a length that paper can take. */
function printing(on) {
  if (list?.element.isConnected && list.items.length <= 2000) {
    list.everything = on;
    list.update();
  }
  if (on && episodeView.steps?.steps.length <= 1000) episodeView.steps?.drawAll();
}

function start() {
  const theme = memory.get("miroir-theme");
  if (theme) document.documentElement.dataset.theme = theme;
  notes.take(INDEX.notes);
  notes.load();
  footer();
  if (state.q) find(state.q, render);
  render();
  parsed.then(() => warm());
  fetchNotes().then(() => INDEX.notes_url && render());
  addEventListener("hashchange", () => {
    leaveList();
    arrive();
  });
  addEventListener("scroll", () => requestAnimationFrame(() => list?.update()), { passive: true });
  addEventListener("resize", () => {
    list?.measure();
    if (mounted === "charts") chartsView.update();
  });
  addEventListener("keydown", onKey);
  addEventListener("storage", () => {
    notes.load();
    if (!state.e) render();
  });
  addEventListener("beforeprint", () => printing(true));
  addEventListener("afterprint", () => printing(false));
}

start();
