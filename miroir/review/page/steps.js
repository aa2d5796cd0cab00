// An episode's steps: a line each, opened to arguments and result; long episodes are drawn in pieces as they come near.

const PIECE_STEPS = 50;
const LINE_PX = 56;

class Steps {
  /** `noted` is called when a note was made at a step. */
  constructor(row, steps, noted) {
    this.row = row;
    this.steps = steps;
    this.noted = noted;
    this.open = new Set();
    this.current = -1;
    this.slowest = steps.reduce((most, step) => Math.max(most, typeof step.seconds === "number" ? step.seconds : 0), 0);
    this.element = h("ol", { class: "steps", "aria-label": "Steps" });
    this.pieces = [];
    this.watcher = new IntersectionObserver(
      (seen) => seen.filter((one) => one.isIntersecting).forEach((one) => this.draw(Number(one.target.dataset.piece))),
      { rootMargin: "800px" },
    );
    for (let from = 0; from < steps.length; from += PIECE_STEPS) this.addPlaceholder(from);
  }

  addPlaceholder(from) {
    const count = Math.min(PIECE_STEPS, this.steps.length - from);
    const place = h("li", { class: "piece", "data-piece": this.pieces.length, "aria-hidden": "true" });
    place.style.height = `${count * LINE_PX}px`;
    this.pieces.push({ from, count, place });
    this.element.append(place);
    this.watcher.observe(place);
  }

  /** Draw a piece of the list, if it is not yet. */
  draw(number) {
    const piece = this.pieces[number];
    if (!piece?.place) return;
    this.watcher.unobserve(piece.place);
    const numbers = Array.from({ length: piece.count }, (_, at) => piece.from + at);
    for (const number of numbers) if (state.q && holds(this.steps[number], state.q)) this.open.add(number);
    const drawn = numbers.map((number) => this.item(number));
    piece.place.replaceWith(...drawn);
    piece.place = null;
  }

  drawAll() {
    this.pieces.forEach((_, number) => this.draw(number));
  }

  at(number) {
    this.draw(Math.floor(number / PIECE_STEPS));
    return this.element.querySelector(`[data-step="${number}"]`);
  }

  item(number) {
    const step = this.steps[number];
    const opened = this.open.has(number);
    const failed = errorText(step.error);
    const item = h("li", {
      class: `step ${failed ? "failed" : ""} ${number === this.current ? "current" : ""}`,
      "data-step": number,
    });
    const head = h(
      "button",
      { type: "button", class: "stephead", "aria-expanded": opened, onclick: () => this.turn(number) },
      h("span", { class: "number" }, number + 1),
      h("span", { class: "tool" }, toolName(step)),
      h("span", { class: "args" }, preview("action" in step ? step.action : step.arguments)),
      this.time(step),
    );
    put(
      item,
      head,
      failed ? h("p", { class: "error" }, failed) : null,
      opened ? null : resultLine(step),
      opened ? this.body(number) : null,
    );
    put(item, noteList(this.row, number));
    return item;
  }

  time(step) {
    const seconds = typeof step.seconds === "number" ? step.seconds : null;
    const label = h("span", { class: "time" }, seconds === null ? "" : duration(seconds));
    if (seconds !== null && this.slowest) label.style.setProperty("--share", seconds / this.slowest);
    return label;
  }

  body(number) {
    const step = this.steps[number];
    const parts = [
      ["arguments", "action" in step ? step.action : step.arguments, 14],
      ["result", step.result, 24],
      ["error", isObject(step.error) ? step.error : null, 12],
    ];
    return h(
      "div",
      { class: "stepbody" },
      parts
        .filter(
          ([, value]) =>
            value !== null && value !== undefined && value !== "" && !(isObject(value) && !Object.keys(value).length),
        )
        .map(([name, value, lines]) => [h("h3", {}, name), block(value, { lines })]),
      h(
        "p",
        { class: "muted small" },
        typeof step.at_s === "number" ? `at ${duration(step.at_s)} of the episode` : "",
        typeof step.reward === "number" && !notes.hidden(this.row) ? ` · reward so far ${digits(step.reward)}` : "",
        step.done === true ? " · the episode's end" : "",
      ),
      this.noteBox(number),
    );
  }

  /** The form of a note at a step, behind a button until it is wanted. */
  noteBox(number) {
    const box = h("div", { class: "notebox" });
    const show = () =>
      fill(
        box,
        noteForm(this.row, number, () => this.renoted(number)),
      );
    if (notes.mine(this.row, number)) show();
    else
      put(
        box,
        h(
          "button",
          { type: "button", class: "addnote", onclick: show },
          "Note on this step",
          h("kbd", { "aria-hidden": "true" }, "c"),
        ),
      );
    return box;
  }

  /** Show what a note at a step has changed, without losing its form. */
  renoted(number) {
    const item = this.at(number);
    item.querySelectorAll(":scope > .note").forEach((note) => note.remove());
    put(item, noteList(this.row, number));
    this.noted();
  }

  /** Open a step that is closed, close one that is open. */
  turn(number, opened = !this.open.has(number)) {
    if (opened) this.open.add(number);
    else this.open.delete(number);
    const old = this.at(number);
    const focused = old.contains(document.activeElement);
    const made = this.item(number);
    old.replaceWith(made);
    if (focused) made.querySelector(".stephead").focus({ preventScroll: true });
  }

  /** Open or close them all; of very many only those that are drawn. */
  turnAll(opened) {
    if (this.steps.length <= 400) this.drawAll();
    this.element.querySelectorAll(".step").forEach((item) => {
      if (this.open.has(Number(item.dataset.step)) !== opened) this.turn(Number(item.dataset.step), opened);
    });
  }

  /** Make a step the current one: in sight, focused, named in the address. */
  focus(number) {
    if (!this.steps.length) return;
    this.element.querySelector(".current")?.classList.remove("current");
    this.current = Math.max(0, Math.min(number, this.steps.length - 1));
    const item = this.at(this.current);
    item.classList.add("current");
    item.querySelector(".stephead").focus({ preventScroll: true });
    item.scrollIntoView({ block: "nearest" });
  }
}

function toolName(step) {
  return textOf(step.tool) || ("action" in step ? "action" : "no tool");
}

function resultLine(step) {
  if (step.error || step.result === null || step.result === undefined || step.result === "") return null;
  return h("p", { class: "resultline" }, preview(step.result, 160));
}

function holds(step, term) {
  return JSON.stringify(step).toLowerCase().includes(JSON.stringify(term.trim().toLowerCase()).slice(1, -1));
}
