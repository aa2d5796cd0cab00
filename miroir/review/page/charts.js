// Charts of the rows that pass the filters, each with its numbers as a table.

const BINS = 20;
const MOST_STRIPS = 40; // tasks that get a line of their own
const HEIGHT = 170;
const LEFT = 34;
const BOTTOM = 22;

const chartsView = {
  mount(main) {
    fill(main, h("h1", { tabindex: "-1" }, "Charts"), toolbar("charts"), h("div", { class: "charts" }));
    this.update();
  },
  update() {
    updateToolbar();
    const shown = filtered();
    const box = document.querySelector(".charts");
    if (!shown.length) return fill(box, nothing());
    if (INDEX.blind && rows.some(notes.hidden))
      return fill(box, h("p", { class: "empty" }, "Charts are shown when every grade is judged."));
    return fill(
      box,
      strips(shown),
      histogram("Steps", "steps", shown, (value) => digits(value, 0)),
      histogram("Time", "seconds", shown, duration),
      overTime(shown),
    );
  },
};

function chart(title, what, drawing, head, body, kind = "") {
  const table = h(
    "table",
    { class: "numbers" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        head.map((name) => h("th", { scope: "col" }, name)),
      ),
    ),
    h(
      "tbody",
      {},
      body.map((cells) =>
        h(
          "tr",
          {},
          cells.map((cell) => h("td", {}, cell)),
        ),
      ),
    ),
  );
  return h(
    "section",
    { class: `card chart ${kind}`, "aria-label": title },
    h("h2", {}, title),
    h("p", { class: "muted" }, what),
    drawing,
    h(
      "details",
      {},
      h("summary", {}, "Numbers"),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Numbers of ${title}` }, table),
    ),
  );
}

function canvas(height, label, ...shapes) {
  const width = chartWidth();
  return g("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, shapes);
}

function chartWidth() {
  const room = document.querySelector(".charts").clientWidth;
  return Math.max(240, (room > 820 ? (room - 20) / 2 : room) - 34);
}

/** Each task a line, each rollout a dot at its reward, a tick at the mean. */
function strips(shown) {
  const graded = tasks.map((task) => ({ task, rows: shown.filter((row) => row.task === task && row.reward !== null) }));
  const lines = graded
    .filter((line) => line.rows.length)
    .sort((a, b) => mean(a.rows, "reward") - mean(b.rows, "reward"));
  const all = lines.flatMap((line) => line.rows.map((row) => row.reward));
  const least = Math.min(0, ...extremes(all));
  const most = Math.max(1, ...extremes(all));
  const width = chartWidth();
  const start = Math.min(190, width * 0.42);
  const x = (reward) => start + ((reward - least) / (most - least)) * (width - start - 12);
  const drawn = lines.slice(0, MOST_STRIPS);
  const height = drawn.length * 20 + 30;
  const shapes = drawn.map(({ task, rows: group }, at) => {
    const y = at * 20 + 14;
    const middle = x(mean(group, "reward"));
    return [
      g("text", { x: start - 10, y: y + 4, class: "label end" }, shortened(task.id, Math.floor(start / 7))),
      g("line", { x1: start, x2: width - 12, y1: y, y2: y, class: "rule" }),
      group.map((row) =>
        g(
          "circle",
          { cx: x(row.reward), cy: y, r: 4.5, class: `dot ${look(row)}` },
          g("title", {}, `${task.id}, ${rollout(row)}: ${digits(row.reward)}`),
        ),
      ),
      g("line", { x1: middle, x2: middle, y1: y - 7, y2: y + 7, class: "tick" }),
    ];
  });
  const axis = [least, (least + most) / 2, most].map((value) =>
    g("text", { x: x(value), y: height - 6, class: "label middle" }, digits(value)),
  );
  const rest = lines.length - drawn.length;
  const highest = rest > 0 ? `; the ${digits(rest)} highest tasks are only in the numbers` : "";
  const what = `A dot a rollout, a tick at the mean; lowest first${highest}.`;
  const numbers = lines.map(({ task, rows: group }) => [
    task.id,
    group.length,
    digits(mean(group, "reward")),
    group.map((row) => digits(row.reward)).join(" "),
  ]);
  return chart(
    "Reward by task",
    what,
    canvas(height, `Rewards of ${many(drawn.length, "task")}`, shapes, axis),
    ["task", "graded", "mean", "rewards"],
    numbers,
    "tall",
  );
}

function extremes(values) {
  return values.length ? [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))] : [];
}

function shortened(text, most) {
  if (text.length <= most) return text;
  const end = Math.floor((most - 1) / 2);
  return `${text.slice(0, most - 1 - end)}…${text.slice(-end)}`;
}

/** Rows by a number, stacked by outcome; the last bin holds the longest twentieth. */
function histogram(title, name, shown, written) {
  const values = shown
    .map((row) => row[name])
    .filter((value) => value !== null)
    .sort((a, b) => a - b);
  const whole = name === "steps";
  const top = values.length ? values[Math.floor((values.length - 1) * 0.95)] : 1;
  const least = whole ? (values[0] ?? 0) : 0;
  const width = whole ? Math.max(1, Math.ceil((top - least + 1) / BINS)) : (top - least) / BINS || 1;
  const count = whole ? Math.ceil((top - least + 1) / width) : BINS;
  const bins = Array.from({ length: count }, (_, at) => ({ from: least + at * width, rows: [] }));
  for (const row of shown) {
    if (row[name] === null) continue;
    bins[Math.min(count - 1, Math.max(0, Math.floor((row[name] - least) / width)))].rows.push(row);
  }
  const labels = bins.map(
    (bin, at) => `${written(bin.from)}${at === count - 1 && values.at(-1) >= bin.from + width ? "+" : ""}`,
  );
  const middle = values.length ? written(values[Math.floor(values.length / 2)]) : "–";
  return stacked(
    title,
    `Median ${middle}; the last bar holds all that is longer.`,
    bins.map((bin) => bin.rows),
    labels,
  );
}

/** Outcomes by when the episodes began: a burst of void is an outage. */
function overTime(shown) {
  const timed = shown.map((row) => [Date.parse(row.started), row]).filter(([at]) => Number.isFinite(at));
  const [first, last] = extremes(timed.map(([at]) => at));
  const width = (last - first) / BINS || 1;
  const bins = Array.from({ length: BINS }, () => []);
  for (const [at, row] of timed) bins[Math.min(BINS - 1, Math.floor((at - first) / width))].push(row);
  const long = last - first > 36e5 * 24;
  const clock = (at) =>
    new Date(at)
      .toISOString()
      .slice(long ? 5 : 11, long ? 16 : 19)
      .replace("T", " ");
  const labels = bins.map((_, at) => (timed.length ? clock(first + at * width) : ""));
  const voids = timed.filter(([, row]) => row.outcome === "void").length;
  return stacked("Void over time", `${many(voids, "void episode")} of ${digits(timed.length)} (UTC).`, bins, labels);
}

function stacked(title, what, groups, labels) {
  const width = chartWidth();
  const most = Math.max(1, ...groups.map((group) => group.length));
  const step = (width - LEFT) / groups.length;
  const y = (count) => (count / most) * (HEIGHT - BOTTOM - 10);
  const shapes = groups.map((group, at) => {
    let base = HEIGHT - BOTTOM;
    return SHOWN.map((kind) => {
      const count = group.filter((row) => look(row) === kind).length;
      if (!count) return null;
      base -= y(count);
      const bar = {
        x: LEFT + at * step + 1,
        y: base,
        width: Math.max(1, step - 2),
        height: y(count),
        class: `fill ${kind}`,
      };
      return g("rect", bar, g("title", {}, `${labels[at]}: ${digits(count)} ${kind}`));
    });
  });
  const every = Math.max(1, Math.ceil(70 / step));
  const axis = labels.map((label, at) =>
    at % every || label === labels[at - every]
      ? null
      : g("text", { x: LEFT + at * step, y: HEIGHT - 6, class: "label" }, label),
  );
  const scale = [0, most].map((count) =>
    g("text", { x: LEFT - 6, y: HEIGHT - BOTTOM - y(count) + 4, class: "label end" }, digits(count)),
  );
  const ground = g("line", { x1: LEFT, x2: width, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM, class: "rule" });
  const numbers = groups.map((group, at) => [
    labels[at],
    ...SHOWN.map((kind) => group.filter((row) => look(row) === kind).length),
  ]);
  return chart(title, what, canvas(HEIGHT, title, ground, shapes, axis, scale), ["from", ...SHOWN], numbers);
}
