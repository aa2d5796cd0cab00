// The form that a reviewer fills: is the grade right, labels, words; every change is a note of its own.

/** The form of a row at a step, or (null) of the whole episode; `changed` is called when something was noted. */
function noteForm(row, step, changed) {
  const before = notes.mine(row, step);
  const said = {
    labels: [...(before?.labels ?? [])],
    grade_right: before?.grade_right ?? null,
    text: before?.text ?? "",
  };
  const status = h("p", { class: "muted small", role: "status" });
  const name = h("input", {
    type: "text",
    value: notes.reviewer,
    autocomplete: "name",
    placeholder: "your name",
    "aria-label": "Reviewer",
    onchange: () => rename(),
  });
  const words = h(
    "textarea",
    {
      rows: 3,
      "aria-label": step === null ? "Note on the episode" : `Note on step ${step + 1}`,
      placeholder: "What a colleague should know",
      onchange: () => save({ text: words.value }),
    },
    said.text,
  );
  const labels = INDEX.labels.map((label, at) =>
    toggle(
      label,
      at < 9 ? at + 1 : null,
      () => said.labels.includes(label),
      () => flip(label),
    ),
  );
  const parts = [
    h("div", { class: "row" }, h("label", { class: "small" }, "Reviewer ", name)),
    step === null ? verdict(row, said, save) : null,
    h("div", { class: "labels", role: "group", "aria-label": "Labels" }, labels),
    words,
    status,
  ];
  const form = h(
    "form",
    { class: "noteform", "data-step": step ?? "", onsubmit: (event) => event.preventDefault() },
    parts,
  );
  form.flip = (at) => labels[at]?.click();
  form.judge = (right) => form.querySelector(`[data-right="${right}"]`)?.click();
  return form;

  function rename() {
    notes.reviewer = name.value;
    changed();
  }

  function flip(label) {
    save({
      labels: said.labels.includes(label) ? said.labels.filter((one) => one !== label) : [...said.labels, label],
    });
  }

  async function save(change) {
    if (!name.value.trim()) {
      fill(status, "Write your name first: notes of nobody cannot be told apart.");
      name.focus();
      return;
    }
    if (name.value.trim() !== notes.reviewer) notes.reviewer = name.value;
    Object.assign(said, change);
    form.querySelectorAll(".toggle").forEach((button) => button.refresh());
    const outcome = await notes.add(row, step, said);
    fill(status, outcome);
    say(outcome);
    changed();
  }
}

/** Is the grade right? Where it is hidden: did the episode do its task? */
function verdict(row, said, save) {
  const blind = notes.hidden(row);
  const success = row.outcome === "success";
  const choices = blind
    ? [
        ["The task was done", success],
        ["It was not", !success],
      ]
    : [
        ["The grade is right", true],
        ["It is wrong", false],
      ];
  if (row.outcome === "void") return h("p", { class: "muted small" }, "Void: there is no grade to judge.");
  const buttons = choices.map(([text, right], at) =>
    toggle(
      text,
      at ? "w" : "y",
      () => said.grade_right === right,
      () => save({ grade_right: said.grade_right === right ? null : right }),
      { "data-right": at ? "no" : "yes" },
    ),
  );
  return h("div", { class: "labels", role: "group", "aria-label": "Verdict" }, buttons);
}

/** A button that is pressed or not, with the key that presses it. */
function toggle(text, key, pressed, press, props = {}) {
  const button = h(
    "button",
    { type: "button", class: "toggle", ...props, onclick: press },
    text,
    key === null ? null : h("kbd", { "aria-hidden": "true" }, key),
  );
  button.refresh = () => button.setAttribute("aria-pressed", pressed());
  button.refresh();
  return button;
}

/** The notes that hold on a row at a step (undefined: at any), as people read them. */
function noteList(row, step) {
  const found = notes.of(row).filter((note) => step === undefined || note.step === step);
  return found.map((note) => {
    const verdictText = note.grade_right === null ? null : h("b", {}, note.grade_right ? "grade right" : "grade wrong");
    return h(
      "div",
      { class: `note ${stale(note, row) ? "stale" : ""}` },
      h(
        "p",
        { class: "small muted" },
        note.reviewer || "nobody",
        " · ",
        note.at.slice(0, 16).replace("T", " "),
        note.step === null ? null : ` · step ${note.step + 1}`,
      ),
      h(
        "p",
        {},
        [verdictText, ...note.labels.map((label) => h("span", { class: "pill" }, label))]
          .filter(Boolean)
          .flatMap((part) => [part, " "]),
        note.text,
      ),
      stale(note, row)
        ? h("p", { class: "small warning" }, "Made on another version of this record: the trace was edited since.")
        : null,
    );
  });
}
