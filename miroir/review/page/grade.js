// How an episode was graded: outcome, each check met or unmet with its evidence, harms, and the facts around it.

/** The outcome in large, and the checks and harms; nothing of that while the grade is hidden. */
function gradeCard(row, record) {
  if (notes.hidden(row)) {
    return h(
      "section",
      { class: "card", "aria-label": "Grade" },
      h("h2", {}, "Grade"),
      h("p", { class: "muted" }, "Hidden until you have judged the episode."),
    );
  }
  const metadata = objectOf(record?.metadata);
  const checks = objectsOf(metadata.checks);
  const harms = objectsOf(metadata.harms);
  const met = checks.filter((check) => check.passed === true).length;
  return h(
    "section",
    { class: "card", "aria-label": "Grade" },
    h("h2", {}, "Grade"),
    h(
      "p",
      { class: "verdict" },
      badge(row),
      row.reward === null ? null : h("span", { class: "reward" }, "reward ", h("b", {}, digits(row.reward))),
    ),
    h(
      "p",
      { class: "muted small" },
      endedWords(row.ended),
      checks.length ? ` · ${met} of ${many(checks.length, "check")} met` : "",
    ),
    textOf(metadata.void_reason) ? h("div", { class: "alert void" }, folded(metadata.void_reason, { lines: 6 })) : null,
    harms.map((harm) => finding("harm", textOf(harm.name) || "harm", harm.detail)),
    [...checks]
      .sort((a, b) => (a.passed === true) - (b.passed === true))
      .map((check) => finding(check.passed === true ? "success" : "failure", textOf(check.name), check.detail)),
  );
}

/** How an episode ended, in words. */
function endedWords(ended) {
  const words = {
    submit: "submitted",
    done: "ended by the environment",
    max_steps: "out of steps",
    deadline: "out of time",
  };
  return ended ? (words[ended] ?? `ended: ${ended.replaceAll("_", " ")}`) : "no ending given";
}

const FINDINGS = { success: "met", failure: "unmet", harm: "harm" };

function finding(kind, name, detail) {
  return h(
    "div",
    { class: `finding ${kind}` },
    h("p", {}, mark(kind), h("span", {}, h("span", { class: "unseen" }, `${FINDINGS[kind]}: `), name)),
    textOf(detail) ? folded(detail, { lines: 2, kind: "evidence" }) : null,
  );
}

/** Who played, when, where and at what cost. */
function factsCard(row, record) {
  const timings = objectOf(record?.timings);
  const environment = objectOf(record?.env);
  const usage = objectOf(record?.usage);
  const facts = [
    ["agent", row.agent],
    ["started", row.started.slice(0, 19).replace("T", " ")],
    ["episode", duration(row.seconds)],
    ["in the environment", typeof timings.env_s === "number" ? duration(timings.env_s) : ""],
    ["steps", digits(row.steps)],
    ["tool errors", row.errors ? digits(row.errors) : ""],
    [
      "tokens",
      Object.entries(usage)
        .map(([name, count]) => `${name.replace("_tokens", "")} ${typeof count === "number" ? digits(count) : ""}`)
        .join(", "),
    ],
    ["environment", [textOf(environment.name), textOf(environment.version)].filter(Boolean).join(" ")],
    ["surface", textOf(record?.surface)],
    ["split", row.task.split],
    ["container", textOf(record?.container)],
    ["episode id", row.id],
    ["record", row.sha.slice(0, 16)],
  ];
  const numbers = Object.entries(objectOf(record?.diagnostics)).filter(
    ([name, value]) => typeof value === "number" && name !== "steps" && name !== "tool_errors",
  );
  return h(
    "section",
    { class: "card", "aria-label": "Facts" },
    h("h2", {}, "Facts"),
    h(
      "dl",
      {},
      [...facts, ...numbers.map(([name, value]) => [name.replaceAll("_", " "), digits(value, 3)])]
        .filter(([, value]) => value !== "")
        .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    ),
  );
}
