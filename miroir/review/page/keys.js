// The keyboard: every key that does something, and the list of them.

const KEYS_OFF = "miroir-keys-off";

const KEYS = [
  [
    "Lists",
    [
      ["j", "next"],
      ["k", "previous"],
      ["Enter", "open"],
      ["/", "search"],
      ["f", "filters"],
      ["t", "tasks"],
      ["a", "all episodes"],
      ["r", "failures"],
      ["h", "charts"],
      ["m", "notes"],
    ],
  ],
  [
    "Episode",
    [
      ["j", "next step"],
      ["k", "previous step"],
      ["Enter", "open or close the step"],
      ["e", "open all steps"],
      ["x", "close all steps"],
      ["n", "next episode of the list"],
      ["p", "previous episode"],
      ["[", "previous rollout"],
      ["]", "next rollout"],
      ["d", "compare"],
      ["Escape", "back"],
    ],
  ],
  [
    "Review",
    [
      ["y", "grade is right"],
      ["w", "grade is wrong"],
      ["1–9", "label"],
      ["c", "note at the step, or on the whole"],
    ],
  ],
  [
    "Everywhere",
    [
      ["l", "light or dark"],
      ["?", "this list"],
    ],
  ],
];

const DO = {
  j: () => move(1),
  k: () => move(-1),
  "/": () => focusOn("#search"),
  f: () => focusOn(".outcome, [data-filter]"),
  t: () => go({ view: "tasks" }, { from: listState() }),
  a: () => go({ view: "episodes" }, { from: listState() }),
  r: () => go({ view: "failures" }, { from: listState() }),
  h: () => go({ view: "charts" }, { from: listState() }),
  m: () => go({ view: "notes" }, { from: listState() }),
  e: () => inEpisode(() => episodeView.steps.turnAll(true)),
  x: () => inEpisode(() => episodeView.steps.turnAll(false)),
  n: () => sibling(readingOrder, 1),
  p: () => sibling(readingOrder, -1),
  "[": () => sibling((row) => row.task.rows, -1),
  "]": () => sibling((row) => row.task.rows, 1),
  d: () => state.e && follow(".rollouts .button"),
  y: () => inEpisode(() => wholeForm()?.judge("yes")),
  w: () => inEpisode(() => wholeForm()?.judge("no")),
  c: () => inEpisode(comment),
  l: () => turnTheme(),
  "?": () => help(),
  Escape: () => back(),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.closest("input, textarea, select");
  if (typing && event.key !== "Escape") return;
  if (typing) return event.target.blur();
  if (memory.get(KEYS_OFF) && event.key !== "Escape") return;
  const label = "123456789".indexOf(event.key);
  const act = label >= 0 ? () => inEpisode(() => (formHere() ?? wholeForm()).flip(label)) : DO[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

function inEpisode(act) {
  if (state.e && episodeView.steps) act();
}

function move(by) {
  if (state.e) return inEpisode(() => stepTo(episodeView.steps.current + by));
  if (state.c) return scrollBy(0, by * innerHeight * 0.4);
  if (list?.element.isConnected) return list.focus(list.current + by);
  return scrollBy(0, by * innerHeight * 0.4);
}

function stepTo(number) {
  episodeView.steps.focus(number);
  history.replaceState(null, "", link({ s: episodeView.steps.current + 1 }));
  state = readState();
  episodeView.step = state.s;
}

/** The order in which episodes are read: the queue's, else the list's. */
function readingOrder() {
  if (INDEX.queue.length) return INDEX.queue.map((id) => byId.get(id));
  return state.view === "episodes"
    ? ordered(filtered(), "episodes")
    : ordered(tasks, "tasks").flatMap((task) => task.rows.filter(filterOf(state)));
}

/** Go to an episode's neighbour in an order. */
function sibling(order, by) {
  const row = byId.get(state.e);
  if (!row) return;
  const among = order(row);
  const to = among[among.indexOf(row) + by];
  if (to) location.hash = episodeLink(to);
  else say(by > 0 ? "This is the last one." : "This is the first one.");
}

function wholeForm() {
  return document.querySelector("#review .noteform");
}

/** The form of the step that is current and open. */
function formHere() {
  return document.querySelector(".step.current .noteform");
}

function comment() {
  const { steps } = episodeView;
  if (steps.current >= 0 && !steps.open.has(steps.current)) steps.turn(steps.current, true);
  follow(".step.current .addnote");
  const words = (formHere() ?? wholeForm()).querySelector("textarea");
  words.focus();
  words.scrollIntoView({ block: "center" });
}

function focusOn(selector) {
  const element = document.querySelector(selector);
  element?.focus();
  element?.select?.();
}

function follow(selector) {
  document.querySelector(selector)?.click();
}

function back() {
  const dialog = document.querySelector("dialog[open]");
  if (dialog) return dialog.close();
  if (state.e || state.c) location.hash = link({}, listState());
  return undefined;
}

function turnTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  setTheme(now === "dark" ? "light" : "dark");
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  memory.set("miroir-theme", name);
}

function help() {
  const off = h("input", {
    type: "checkbox",
    checked: Boolean(memory.get(KEYS_OFF)),
    onchange: () => memory.set(KEYS_OFF, off.checked ? "1" : ""),
  });
  const dialog = h(
    "dialog",
    { "aria-label": "Keys", onclose: () => dialog.remove() },
    h("h2", {}, "Keys"),
    h(
      "div",
      { class: "keys" },
      KEYS.map(([title, keys]) =>
        h(
          "section",
          {},
          h("h3", {}, title),
          h(
            "dl",
            {},
            keys.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]),
          ),
        ),
      ),
    ),
    h("p", {}, h("label", {}, off, " Keys off, for those whose voice or hand presses them by accident")),
    h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
  );
  document.body.append(dialog);
  dialog.showModal();
}
