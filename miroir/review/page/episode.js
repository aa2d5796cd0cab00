// One episode: what was asked, what was done, how it was graded, what reviewers say of it.

const episodeView = {
  row: null,
  steps: null,
  step: "", // the one that the address named last

  async mount(main) {
    this.row = byId.get(state.e);
    this.steps = null;
    this.step = "";
    if (!this.row) return fill(main, missing(state.e));
    if (this.row.page !== null) return location.replace(`${pageOf(this.row)}${location.hash}`);
    fill(main, this.head(), h("p", { class: "muted" }, "Opening…"));
    const row = this.row;
    const record = await recordOf(row).catch((error) => ({ unreadable: String(error) }));
    if (this.row !== row || state.e !== row.id) return undefined;
    fill(main, this.head(), this.body(record));
    main.dataset.episode = row.id;
    main.querySelector("h1").focus({ preventScroll: true });
    scrollTo(0, 0);
    return this.update();
  },

  /** Go to the step that the address names, where it names another than before; show notes that came since. */
  update() {
    if (!this.steps) return;
    if (state.s && state.s !== this.step) this.steps.focus(Number(state.s) - 1);
    this.step = state.s;
    this.noted();
  },

  head() {
    const row = this.row;
    const [left, right] = comparison(row);
    return h(
      "div",
      { class: "episodehead" },
      h("p", { class: "crumbs" }, h("a", { href: link({}, listState()) }, "← List"), queuePlace(row)),
      h("h1", { tabindex: "-1" }, row.task.id, " ", h("span", { class: "muted" }, rollout(row))),
      h(
        "p",
        { class: "row" },
        badge(row),
        classPill(row.task),
        row.task.tags.map((tag) => h("span", { class: "pill" }, tag)),
        row.task.versions > 1 ? h("span", { class: "pill warning" }, many(row.task.versions, "version")) : null,
      ),
      h(
        "nav",
        { class: "row rollouts", "aria-label": "Rollouts of this task" },
        h("span", { class: "small muted" }, "Rollouts"),
        row.task.rows.slice(0, 60).map((other) => {
          const made = chip(other);
          if (other === row) made.setAttribute("aria-current", "true");
          return made;
        }),
        right
          ? h(
              "a",
              { class: "button", href: pairLink(left, right) },
              "Compare",
              h("kbd", { "aria-hidden": "true" }, "d"),
            )
          : null,
      ),
    );
  },

  body(record) {
    const row = this.row;
    if (record === null)
      return h("p", { class: "empty" }, INDEX.left_out || "This episode's record is on another page.");
    if (record.unreadable) return h("p", { class: "empty" }, `This record cannot be shown: ${record.unreadable}`);
    const steps = objectsOf(record.steps);
    this.steps = new Steps(row, steps, () => this.noted());
    const side = h(
      "aside",
      { class: "side", "aria-label": "Grade and review" },
      gradeCard(row, record),
      this.review(),
      factsCard(row, record),
    );
    return h(
      "div",
      { class: "columns" },
      h(
        "div",
        { class: "story" },
        this.told(record),
        this.stepsCard(steps),
        messagesCard(record),
        toolsCard(record),
        rawCard(row, record),
      ),
      side,
    );
  },

  told(record) {
    const instruction = textOf(objectOf(record.task).instruction) || this.row.task.instruction;
    const prompt = textOf(record.prompt);
    return h(
      "section",
      { class: "card", "aria-label": "Instruction" },
      h("h2", {}, "Instruction"),
      instruction
        ? folded(instruction, { lines: 14, kind: "prose" })
        : h("p", { class: "muted" }, "The record holds no instruction."),
      prompt && prompt !== instruction
        ? h("details", {}, h("summary", {}, "Prompt as it was sent"), folded(prompt, { lines: 40, kind: "prose" }))
        : null,
    );
  },

  stepsCard(steps) {
    return h(
      "section",
      { class: "card", "aria-label": "What was done" },
      h(
        "div",
        { class: "cardhead" },
        h("h2", {}, many(steps.length, "step")),
        h(
          "button",
          { type: "button", onclick: () => this.steps.turnAll(true) },
          "Open all",
          h("kbd", { "aria-hidden": "true" }, "e"),
        ),
        h(
          "button",
          { type: "button", onclick: () => this.steps.turnAll(false) },
          "Close all",
          h("kbd", { "aria-hidden": "true" }, "x"),
        ),
      ),
      steps.length ? this.steps.element : h("p", { class: "muted" }, "No tool was called."),
    );
  },

  review() {
    const row = this.row;
    const list = h("div", { class: "notelist" }, noteList(row));
    return h(
      "section",
      { class: "card", id: "review", "aria-label": "Review" },
      h("h2", {}, "Review"),
      noteForm(row, null, () => this.noted()),
      list,
    );
  },

  /** Show what a note has changed, without losing the form that is being filled. */
  async noted() {
    const main = document.getElementById("main");
    fill(main.querySelector(".notelist"), noteList(this.row));
    main.querySelector(".episodehead").replaceWith(this.head());
    if (!INDEX.blind) return;
    const record = await recordOf(this.row);
    main.querySelector('[aria-label="Grade"]').replaceWith(gradeCard(this.row, record));
    main.querySelector("#raw")?.replaceWith(rawCard(this.row, record));
  },
};

function missing(id) {
  const home = INDEX.home
    ? h("a", { href: `${INDEX.home}#${new URLSearchParams({ e: id })}` }, "Look for it in the whole report")
    : null;
  return h(
    "div",
    { class: "empty" },
    h("h1", { tabindex: "-1" }, "No such episode"),
    h("p", {}, `This page holds no episode ${id}. `, home ?? h("a", { href: link({}, {}) }, "Show all episodes")),
  );
}

/** Where a row stands in the queue, where there is one. */
function queuePlace(row) {
  const at = INDEX.queue.indexOf(row.id);
  if (at < 0) return null;
  const left = INDEX.queue.filter((id) => !notes.reviewed(byId.get(id))).length;
  return h("span", { class: "muted" }, ` · ${at + 1} of ${INDEX.queue.length} in the queue, ${left} to judge`);
}

/** The pair to compare a row in: its task's best pair if the row is in it, else the row with one of that pair. */
function comparison(row) {
  const others = row.task.rows.filter((other) => other !== row && other.blob !== null);
  if (!others.length) return [row, null];
  const pair = row.task.pair ? [rows[row.task.pair[0]], rows[row.task.pair[1]]] : null;
  if (pair?.includes(row)) return pair;
  if (row.outcome === "success") return [row, pair?.[1] ?? others[0]];
  return [pair?.[0] ?? others[0], row];
}

function messagesCard(record) {
  const messages = objectsOf(record.messages);
  if (!messages.length) return null;
  const box = h(
    "details",
    { class: "card", ontoggle: () => box.open && !box.drawn && draw() },
    h(
      "summary",
      {},
      h("h2", {}, many(messages.length, "message")),
      h("span", { class: "muted" }, " as the model saw and wrote them"),
    ),
  );
  const draw = () => {
    box.drawn = true;
    put(box, messages.map(message));
  };
  return box;
}

function message(one) {
  const calls = objectsOf(one.tool_calls).map((call) => {
    const called = objectOf(call.function);
    return h(
      "div",
      { class: "call" },
      h("span", { class: "tool" }, textOf(called.name) || "no name"),
      block(called.arguments ?? null, { lines: 10 }),
    );
  });
  const content =
    one.content === null || one.content === undefined ? null : block(one.content, { lines: 12, kind: "prose" });
  const role = textOf(one.role) || "no role";
  return h(
    "div",
    { class: `message ${["system", "user", "assistant", "tool"].includes(role) ? role : "other"}` },
    h("p", { class: "small" }, h("b", {}, role), textOf(one.name) ? ` · ${one.name}` : ""),
    content,
    calls,
  );
}

function toolsCard(record) {
  const tools = objectsOf(record.tools).map((tool) => objectOf(tool.function));
  if (!tools.length) return null;
  return h(
    "details",
    { class: "card" },
    h("summary", {}, h("h2", {}, many(tools.length, "tool")), h("span", { class: "muted" }, " as the model saw them")),
    h(
      "dl",
      { class: "tools" },
      tools.map((tool) => [h("dt", { class: "tool" }, textOf(tool.name)), h("dd", {}, textOf(tool.description))]),
    ),
  );
}

function rawCard(row, record) {
  if (notes.hidden(row)) return h("div", { id: "raw" });
  const box = h(
    "details",
    { class: "card", id: "raw", ontoggle: () => box.open && !box.drawn && draw() },
    h("summary", {}, h("h2", {}, "Record"), h("span", { class: "muted" }, " as JSON")),
  );
  const draw = () => {
    box.drawn = true;
    const text = JSON.stringify(record, null, 2);
    const copy = () =>
      navigator.clipboard.writeText(text).then(
        () => say("Copied."),
        () => say("This browser copies nothing from here."),
      );
    const buttons = [
      h("button", { type: "button", onclick: copy }, "Copy"),
      h("button", { type: "button", onclick: () => download(`${row.id}.json`, text) }, "Download"),
    ];
    put(box, h("p", { class: "row" }, buttons), folded(text, { lines: 60 }));
  };
  return box;
}

/** Hand a text to the reader as a file. */
function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
