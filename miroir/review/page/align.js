// Two rollouts side by side: their calls aligned on tool and arguments, as miroir/review/alignment.py does it.

const MOST_CELLS = 1_000_000; // of the alignment's table; what would need more is set side by side as it comes
const SAME = 3; // an equal call is worth more than two that only resemble each other
const CHANGED = 1;

/** Two calls are equal when their keys are: a record's JSON has its keys sorted. */
function callKey(step) {
  return "action" in step ? JSON.stringify(step.action) : JSON.stringify([step.tool ?? null, step.arguments ?? null]);
}

/** How many calls two rollouts have in common before they part. */
function parting(left, right) {
  const least = Math.min(left.length, right.length);
  let at = 0;
  while (at < least && left[at] === right[at]) at += 1;
  return at;
}

/** Rows of steps that stand side by side: same, changed (the tool is the same), other; left or right alone. */
function align(left, right) {
  const [a, b] = [left.map(called), right.map(called)];
  const [keysA, keysB] = [a.map((call) => call.key), b.map((call) => call.key)];
  const start = parting(keysA, keysB);
  const end = parting(keysA.slice(start).reverse(), keysB.slice(start).reverse());
  const matched = [
    ...Array.from({ length: start }, (_, at) => [at, at]),
    ...matches(a.slice(start, a.length - end), b.slice(start, b.length - end)).map(([i, j]) => [i + start, j + start]),
    ...Array.from({ length: end }, (_, at) => [a.length - end + at, b.length - end + at]),
  ];
  return rowsOf(a, b, matched);
}

function called(step) {
  const named = Object.entries(objectOf(step.arguments)).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return { key: callKey(step), tool: step.tool ?? null, arguments: new Set(named) };
}

/** Which calls of the left are set beside which of the right, both in order. */
function matches(a, b) {
  if (a.length * b.length > MOST_CELLS) return [];
  const width = b.length + 1;
  const best = new Int32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const at = i * width + j;
      best[at] = Math.max(best[at + width], best[at + 1], best[at + width + 1] + worth(a[i], b[j]));
    }
  }
  const found = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    const at = i * width + j;
    const value = worth(a[i], b[j]);
    if (value && best[at] === best[at + width + 1] + value) found.push([i++, j++]);
    else if (best[at] === best[at + width]) i += 1;
    else j += 1;
  }
  return found;
}

function rowsOf(a, b, matched) {
  const found = [];
  let [i, j] = [0, 0];
  for (const [nextI, nextJ] of [...matched, [a.length, b.length]]) {
    while (i < nextI || j < nextJ) found.push(rowOf(a, b, i < nextI ? i++ : null, j < nextJ ? j++ : null));
    if (nextI < a.length && nextJ < b.length) found.push(rowOf(a, b, i++, j++));
  }
  return found;
}

function rowOf(a, b, i, j) {
  if (i === null || j === null) return { kind: j === null ? "left" : "right", left: i, right: j };
  const kind = a[i].key === b[j].key ? "same" : a[i].tool === b[j].tool ? "changed" : "other";
  return { kind, left: i, right: j };
}

function worth(one, other) {
  if (one.key === other.key) return SAME;
  return one.tool === other.tool && [...one.arguments].some((argument) => other.arguments.has(argument)) ? CHANGED : 0;
}
