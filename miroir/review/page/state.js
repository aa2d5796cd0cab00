// Where the reader is, kept whole in the address's hash: every view is a link.

const VIEWS = [
  ["tasks", "Tasks"],
  ["episodes", "Episodes"],
  ["failures", "Failures"],
  ["charts", "Charts"],
  ["notes", "Notes"],
];
const FILTERS = ["q", "show", "class", "agent", "tag", "reason", "reviewed", "sort"];

let state = readState();

function readState() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

/** The link to the present state with changes; null or "" removes a part. */
function link(changes, from = state) {
  const parts = Object.entries({ ...from, ...changes }).filter(([, value]) => value !== null && value !== "");
  return `#${new URLSearchParams(parts)}`;
}

/** The state that a list has: its filters, without the episode or pair that is open. */
function listState() {
  return Object.fromEntries(["view", ...FILTERS].filter((name) => state[name]).map((name) => [name, state[name]]));
}

let listed = { state: null, hash: "" }; // lists make very many links from one state

/** The link to an episode, from the list that is shown. */
function episodeLink(row) {
  if (row.page !== null) return `${pageOf(row)}#e=${encodeURIComponent(row.id)}`;
  if (listed.state !== state) listed = { state, hash: link({}, listState()) };
  return `${listed.hash}${listed.hash.length > 1 ? "&" : ""}e=${encodeURIComponent(row.id)}`;
}

/** The link to two rollouts side by side. */
function pairLink(left, right) {
  return `${pageOf(left)}${link({ c: `${left.id},${right.id}` }, left.page === null ? listState() : {})}`;
}

function pageOf(row) {
  return row.page === null ? "" : INDEX.pages[row.page];
}

/** Go to another state; `quietly` leaves no entry in the browser's history. */
function go(changes, { from = state, quietly = false } = {}) {
  const to = link(changes, from);
  if (quietly) {
    history.replaceState(null, "", to);
    arrive();
  } else if (to !== location.hash) {
    location.hash = to;
  }
}

function arrive() {
  state = readState();
  if ((state.q ?? "") !== search.asked) find(state.q ?? "", render);
  render();
}

/** What a browser remembers for the reader; nothing where it remembers nothing. */
const memory = {
  get(name) {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  },
  set(name, value) {
    try {
      localStorage.setItem(name, value);
      return true;
    } catch {
      return false;
    }
  },
  names(prefix) {
    try {
      return Object.keys(localStorage).filter((name) => name.startsWith(prefix));
    } catch {
      return [];
    }
  },
};
