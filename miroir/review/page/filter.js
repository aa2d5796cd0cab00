// Which rows are shown: by filters, by words in what the lists know, by words inside records as they are decoded.

const SHOWN = ["success", "failure", "void", "harm"];
const TEXT_BUDGET = 96e6; // characters of records kept for the next search
const SLICE_MS = 16;

const contents = new Map(); // a row's number to the lower-case text of its record
let contentSize = 0;
let search = { asked: "", term: "", found: new Set(), left: 0 };

/** The rows that pass the filters and the search. */
function filtered() {
  const keep = filterOf(state);
  return rows.filter((row) => keep(row) && (!search.term || search.found.has(row.at)));
}

/** A test of the filters of a state; `without` leaves one of them out, for the counts beside its choices. */
function filterOf(filters, without = "") {
  const shown = without === "show" || !filters.show ? [] : filters.show.split(",");
  const wanted = (name) => (name === without ? "" : (filters[name] ?? ""));
  const [kind, agent, tag, reason, reviewed] = ["class", "agent", "tag", "reason", "reviewed"].map(wanted);
  return (row) =>
    (!shown.length || shown.includes(row.outcome) || (row.harm && shown.includes("harm"))) &&
    (!kind || (row.task.class ?? "none") === kind) &&
    (!agent || row.agent === agent) &&
    (!tag || row.task.tags.includes(tag)) &&
    (!reason || (row.reason !== null && reasonText(row.reason) === reason)) &&
    (!reviewed || (reviewed === "yes") === notes.reviewed(row));
}

/** What the lists know of a row, in lower case. */
function known(row) {
  const { task, reason } = row;
  return [row.id, task.id, task.instruction, task.tags.join(" "), row.agent, row.ended, row.outcome, ...(reason ?? [])]
    .join("\n")
    .toLowerCase();
}

/** Search for the term; `told` is called when more was found, and at the end. */
async function find(term, told) {
  const wanted = term.trim().toLowerCase();
  const mine = { asked: term.trim(), term: wanted, found: new Set(), left: 0 };
  search = mine;
  if (!wanted) return;
  for (const row of rows) if (known(row).includes(wanted)) mine.found.add(row.at);
  const written = JSON.stringify(wanted).slice(1, -1); // as it stands in a record's JSON
  const unknown = rows.filter(
    (row) => !mine.found.has(row.at) && row.blob !== null && !(INDEX.blind && notes.hidden(row)),
  );
  mine.left = unknown.length;
  let until = performance.now() + SLICE_MS;
  for (const row of unknown) {
    const text = contents.get(row.at) ?? (await content(row));
    if (search !== mine) return;
    if (text.includes(written)) mine.found.add(row.at);
    mine.left -= 1;
    if (performance.now() > until) {
      told();
      await new Promise((resolve) => setTimeout(resolve));
      until = performance.now() + SLICE_MS;
    }
  }
  if (search === mine) told();
}

/** Decode the records while nothing else is to do, so that a search finds them ready. */
function warm(from = 0) {
  requestIdleCallback(async () => {
    const until = performance.now() + SLICE_MS;
    let at = from;
    for (; at < rows.length && performance.now() < until; at += 1) {
      if (rows[at].blob !== null && !contents.has(at)) await content(rows[at]);
    }
    if (contentSize < TEXT_BUDGET && at < rows.length) warm(at);
    else document.documentElement.dataset.warm = "";
  });
}

async function content(row) {
  const text = (await recordText(row)).toLowerCase();
  if (contentSize + text.length <= TEXT_BUDGET) {
    contents.set(row.at, text);
    contentSize += text.length;
  }
  return text;
}

const ORDERS = {
  tasks: [
    ["failing", "most failures first", (a, b) => failing(b) - failing(a)],
    ["name", "by name", () => 0],
    ["reward", "lowest reward first", (a, b) => mean(a.rows, "reward") - mean(b.rows, "reward")],
    ["steps", "longest first", (a, b) => mean(b.rows, "steps") - mean(a.rows, "steps")],
    ["seconds", "slowest first", (a, b) => mean(b.rows, "seconds") - mean(a.rows, "seconds")],
  ],
  episodes: [
    ["task", "by task", () => 0],
    ["reward", "lowest reward first", (a, b) => (a.reward ?? -1) - (b.reward ?? -1)],
    ["steps", "longest first", (a, b) => b.steps - a.steps],
    ["seconds", "slowest first", (a, b) => (b.seconds ?? 0) - (a.seconds ?? 0)],
    ["errors", "most tool errors first", (a, b) => b.errors - a.errors],
    ["started", "newest first", (a, b) => (a.started < b.started ? 1 : a.started > b.started ? -1 : 0)],
  ],
};

/** The items in the order that the reader chose, or the view's first. */
function ordered(items, view) {
  const [, , compare] = ORDERS[view].find(([name]) => name === state.sort) ?? ORDERS[view][0];
  return [...items].sort((a, b) => compare(a, b) || a.at - b.at);
}

/** The share of a task's graded rollouts that failed or did harm. */
function failing(task) {
  const graded = task.rows.filter((row) => row.outcome !== "void");
  return graded.length ? graded.filter((row) => row.outcome === "failure" || row.harm).length / graded.length : 0;
}

function mean(group, name) {
  const values = group.map((row) => row[name]).filter((value) => value !== null);
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : -1;
}
