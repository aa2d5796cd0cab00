// All notes of the report, the queue of what is left to judge, and the notes' way out.

const notesView = {
  mount(main) {
    fill(main, h("h1", { tabindex: "-1" }, "Notes"), h("div", { class: "notesbox" }));
    this.update();
  },
  update() {
    const noted = rows.filter((row) => notes.of(row).length);
    fill(
      document.querySelector(".notesbox"),
      this.ways(),
      this.queue(),
      this.tally(),
      noted.length
        ? noted.map((row) => this.episode(row))
        : h("p", { class: "empty" }, "No notes yet. Open an episode and say whether its grade is right."),
    );
  },

  ways() {
    const file = h("input", {
      type: "file",
      accept: ".jsonl",
      multiple: true,
      "aria-label": "Open notes files",
      onchange: () => openNotes(file.files),
    });
    const own = [...notes.own.values()].flat().length;
    return h(
      "section",
      { class: "card", "aria-label": "Notes files" },
      h(
        "p",
        {},
        INDEX.notes_url
          ? "Notes are written to the notes file at once."
          : "Notes are kept in this browser. Download them to share; --notes takes the files of several reviewers.",
      ),
      h(
        "div",
        { class: "row" },
        h(
          "button",
          { type: "button", disabled: !own, onclick: () => download("notes.jsonl", notes.file()) },
          `Download ${many(own, "note")}`,
        ),
        h("label", { class: "pick" }, "Show another reviewer's notes ", file),
      ),
    );
  },

  queue() {
    if (!INDEX.queue.length) return null;
    const left = INDEX.queue.map((id) => byId.get(id)).filter((row) => notes.mine(row, null)?.grade_right == null);
    return h(
      "section",
      { class: "card", "aria-label": "Queue" },
      h("h2", {}, `Queue: ${INDEX.queue.length - left.length} of ${INDEX.queue.length} judged by you`),
      left.length
        ? h("p", {}, h("a", { class: "button", href: episodeLink(left[0]) }, "Judge the next"))
        : h("p", { class: "muted" }, "You have judged them all."),
    );
  },

  tally() {
    const judged = rows.flatMap((row) =>
      notes.of(row).filter((note) => note.grade_right !== null && !stale(note, row)),
    );
    if (!judged.length) return null;
    const right = judged.filter((note) => note.grade_right).length;
    return h(
      "p",
      { class: "muted" },
      `${many(judged.length, "verdict")}: the grade is right in ${right}, wrong in ${judged.length - right}.`,
    );
  },

  episode(row) {
    return h(
      "section",
      { class: "card", "aria-label": `${row.task.id}, ${rollout(row)}` },
      h("h2", {}, chip(row), " ", h("a", { href: episodeLink(row) }, `${row.task.id}, ${rollout(row)}`)),
      noteList(row),
    );
  },
};

async function openNotes(files) {
  const read = (await Promise.all([...files].map((file) => file.text()))).flatMap(notesIn);
  say(`${many(notes.take(read), "note")} of ${read.length} belong to this report.`);
  render();
}
