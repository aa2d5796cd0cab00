// Two rollouts of a task side by side, aligned on tool and arguments: where do they first part?

const MOST_DRAWN = 400; // rows drawn at once
const RUN = 6; // equal calls in a row that are folded
const KEPT_OF_RUN = 2; // of them, those before the paths part stay in sight

const compareView = {
  async mount(main) {
    const [left, right] = (state.c ?? "").split(",").map((id) => byId.get(id));
    if (!left || !right) return fill(main, missing(state.c));
    if (left.page !== null) return location.replace(`${pageOf(left)}${location.hash}`);
    if (notes.hidden(left) || notes.hidden(right))
      return fill(
        main,
        this.head(left, right),
        h("p", { class: "empty" }, "Rollouts are compared when both are judged."),
      );
    const records = await Promise.all([recordOf(left), recordOf(right)]);
    if (state.c !== `${left.id},${right.id}`) return undefined;
    if (records.includes(null))
      return fill(
        main,
        this.head(left, right),
        h("p", { class: "empty" }, INDEX.left_out || "One of the two is on another page."),
      );
    fill(main, this.head(left, right), this.body(left, right, records));
    main.querySelector("h1").focus({ preventScroll: true });
    return scrollTo(0, 0);
  },

  update() {},

  head(left, right) {
    return h(
      "div",
      { class: "episodehead" },
      h("p", { class: "crumbs" }, h("a", { href: link({}, listState()) }, "← List")),
      h("h1", { tabindex: "-1" }, left.task.id, " ", h("span", { class: "muted" }, "two rollouts")),
      h(
        "div",
        { class: "row" },
        this.choice("A", left, (row) => pairLink(row, right)),
        this.choice("B", right, (row) => pairLink(left, row)),
        h("a", { class: "button", href: pairLink(right, left) }, "Swap"),
      ),
    );
  },

  choice(name, row, to) {
    const others = row.task.rows.filter((other) => other.blob !== null || other === row);
    const options = others.map((other) =>
      h(
        "option",
        { value: other.at, selected: other === row },
        `${rollout(other)}: ${outcome(other)}, ${many(other.steps, "step")}`,
      ),
    );
    return h(
      "label",
      { class: "pick" },
      h("b", { class: `side-${name}` }, name),
      " ",
      h(
        "select",
        {
          onchange: (event) => {
            location.hash = to(rows[event.target.value]);
          },
        },
        options,
      ),
    );
  },

  body(left, right, records) {
    const steps = records.map((record) => objectsOf(record.steps));
    const found = align(steps[0], steps[1]);
    const first = found.findIndex((row) => row.kind !== "same");
    const drawn = this.lines(found.slice(0, MOST_DRAWN), first, steps);
    const rest = found.length - MOST_DRAWN;
    return [
      h(
        "section",
        { class: "card summaryline", "aria-label": "In short" },
        this.short(left, right, found, first, steps),
      ),
      this.checks(left, right, records),
      h(
        "section",
        { class: "card", "aria-label": "Steps side by side" },
        h(
          "div",
          { class: "pairhead", "aria-hidden": "true" },
          h("b", { class: "side-A" }, "A ", badge(left)),
          h("b", { class: "side-B" }, "B ", badge(right)),
        ),
        h("ol", { class: "pairs" }, drawn),
        rest > 0 ? h("p", { class: "muted" }, `${many(rest, "row")} more; open the episodes to read on.`) : null,
      ),
    ];
  },

  /** The finding in a sentence. */
  short(left, right, found, first, steps) {
    const [one, other] = steps.map((side) => many(side.length, "step"));
    const sides = `A: ${outcome(left)}, ${one}. B: ${outcome(right)}, ${other}.`;
    if (first < 0) return h("p", {}, sides, " ", h("b", {}, "Every call is the same."));
    const equal = found.filter((row) => row.kind === "same").length;
    return h(
      "p",
      {},
      sides,
      " ",
      h(
        "b",
        {},
        first
          ? `The first ${first === 1 ? "call is" : `${first} calls are`} the same; they part at step ${first + 1}.`
          : "They part at the first step.",
      ),
      ` ${many(equal, "call")} in all ${equal === 1 ? "is" : "are"} the same.`,
    );
  },

  /** The rows, long runs of equal calls folded, and the place where the paths part marked. */
  lines(found, first, steps) {
    const lines = [];
    for (let at = 0; at < found.length;) {
      if (at === first) lines.push(this.parting(first, steps));
      let end = at;
      while (end < found.length && found[end].kind === "same") end += 1;
      const fold = end === found.length ? end : end - KEPT_OF_RUN;
      if (end - at > RUN) {
        lines.push(this.run(found.slice(at, fold), steps));
        at = fold;
      } else if (end === at) end += 1;
      for (; at < end; at += 1) lines.push(this.line(found[at], steps));
    }
    return lines;
  },

  run(found, steps) {
    const [from, to] = [found[0], found.at(-1)];
    const body = () =>
      h(
        "ol",
        { class: "pairs" },
        found.map((row) => this.line(row, steps)),
      );
    return h(
      "li",
      { class: "pair same run" },
      opened(
        [
          h("span", { class: "number" }, "="),
          h("span", { class: "tool" }, many(found.length, "equal call")),
          h("span", { class: "args" }, `steps ${from.left + 1} to ${to.left + 1}`),
        ],
        body,
      ),
    );
  },

  /** What each does first that the other does not. */
  parting(at, steps) {
    const [a, b] = steps.map((side) => side[at]);
    const next = (step) => (step ? `calls ${toolName(step)}` : "ends");
    const alike = a && b && toolName(a) === toolName(b);
    return h(
      "li",
      { class: "parting" },
      h("b", {}, "They part here. "),
      alike ? `Both call ${toolName(a)}, with different arguments.` : `A ${next(a)}, B ${next(b)}.`,
    );
  },

  line(row, steps) {
    const a = row.left === null ? null : steps[0][row.left];
    const b = row.right === null ? null : steps[1][row.right];
    if (row.kind === "same") return h("li", { class: "pair same" }, this.both(row, a, b));
    const differing = row.kind === "changed" ? differences(a, b) : null;
    return h(
      "li",
      { class: `pair ${row.kind}` },
      this.side("A", row.left, a, differing),
      this.side("B", row.right, b, differing),
    );
  },

  both(row, a, b) {
    const other = JSON.stringify(a.result) !== JSON.stringify(b.result) || errorText(a.error) !== errorText(b.error);
    const body = () => [
      h("div", { class: "half" }, h("h3", {}, "A's result"), this.result(a)),
      h("div", { class: "half" }, h("h3", {}, "B's result"), this.result(b)),
    ];
    return opened(
      [
        h("span", { class: "number" }, row.left === row.right ? row.left + 1 : `${row.left + 1} · ${row.right + 1}`),
        h("span", { class: "tool" }, toolName(a)),
        h("span", { class: "args" }, preview("action" in a ? a.action : a.arguments)),
        other ? h("span", { class: "pill" }, "other result") : null,
      ],
      body,
      "two",
    );
  },

  side(name, at, step, differing) {
    if (!step) return h("div", { class: "half none" }, h("span", { class: "unseen" }, `${name}: no call`));
    const failed = errorText(step.error);
    const args = "action" in step ? step.action : step.arguments;
    return h(
      "div",
      { class: `half side-${name}` },
      opened(
        [
          h("span", { class: "unseen" }, `${name}: `),
          h("span", { class: "number" }, at + 1),
          h("span", { class: "tool" }, toolName(step)),
        ],
        () => [this.result(step)],
      ),
      isObject(args) && Object.keys(args).length
        ? h(
            "dl",
            { class: "arguments" },
            Object.entries(args).map(([key, value]) => [
              h("dt", {}, key),
              h("dd", { class: differing?.has(key) ? "differs" : "" }, preview(value, 400)),
            ]),
          )
        : null,
      failed ? h("p", { class: "error" }, failed) : null,
    );
  },

  result(step) {
    return step.result === null || step.result === undefined || step.result === ""
      ? h("p", { class: "muted" }, errorText(step.error) || "nothing")
      : block(step.result, { lines: 16 });
  },

  /** Which checks each of the two met. */
  checks(left, right, records) {
    const lists = records.map(
      (record) =>
        new Map(
          objectsOf(objectOf(record.metadata).checks).map((check) => [textOf(check.name), check.passed === true]),
        ),
    );
    const names = [...new Set([...lists[0].keys(), ...lists[1].keys()])];
    if (!names.length) return null;
    const cell = (met) =>
      h(
        "td",
        {},
        met === undefined
          ? "–"
          : [mark(met ? "success" : "failure"), h("span", { class: "unseen" }, met ? "met" : "unmet")],
      );
    return h(
      "section",
      { class: "card", "aria-label": "Checks" },
      h(
        "table",
        { class: "matrix" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Check"),
            h("th", { scope: "col", class: "side-A" }, "A"),
            h("th", { scope: "col", class: "side-B" }, "B"),
          ),
        ),
        h(
          "tbody",
          {},
          names.map((name) =>
            h(
              "tr",
              { class: lists[0].get(name) === lists[1].get(name) ? "" : "differs" },
              h("th", { scope: "row" }, name),
              cell(lists[0].get(name)),
              cell(lists[1].get(name)),
            ),
          ),
        ),
      ),
    );
  },
};

/** A line that a press opens; `body` is made then. */
function opened(head, body, kind = "") {
  const box = h("div", { class: `body ${kind}`, hidden: true });
  const button = h("button", { type: "button", class: "stephead", "aria-expanded": "false", onclick: turn }, head);
  return [button, box];

  function turn() {
    if (!box.hasChildNodes()) put(box, body());
    box.hidden = !box.hidden;
    button.setAttribute("aria-expanded", !box.hidden);
  }
}

/** The names of the arguments in which two calls differ. */
function differences(a, b) {
  const [one, other] = [objectOf(a.arguments), objectOf(b.arguments)];
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  return new Set([...names].filter((name) => JSON.stringify(one[name]) !== JSON.stringify(other[name])));
}
