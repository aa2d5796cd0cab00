// Reviewers' notes: those that the report came with, and those of this browser, each a line of a notes file.

const NOTES_PREFIX = "miroir-notes:";
const REVIEWER = "miroir-reviewer";

const notes = {
  given: new Map(), // a row's number to the notes that the report, the server or another file gave
  own: new Map(), // a row's number to the notes that this browser keeps

  get reviewer() {
    return memory.get(REVIEWER) ?? notes.unsavedName ?? "";
  },
  set reviewer(name) {
    notes.unsavedName = name.trim();
    memory.set(REVIEWER, notes.unsavedName);
  },

  /** Take notes from elsewhere; how many of them belong to this report. */
  take(found) {
    const ours = found.filter((note) => isNote(note) && byId.has(note.episode_id));
    for (const note of ours) appended(notes.given, byId.get(note.episode_id).at, note);
    return ours.length;
  },

  /** Read again what this browser keeps; another tab may have written. */
  load() {
    notes.own.clear();
    for (const name of memory.names(NOTES_PREFIX)) {
      const row = byId.get(name.slice(NOTES_PREFIX.length));
      if (row) notes.own.set(row.at, notesIn(memory.get(name)));
    }
  },

  /** The notes that hold on a row: the last of each reviewer at each step, oldest first. */
  of(row) {
    if (!notes.given.has(row.at) && !notes.own.has(row.at)) return [];
    const holding = new Map();
    const all = [...(notes.given.get(row.at) ?? []), ...(notes.own.get(row.at) ?? [])];
    all.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
    for (const note of all) {
      const place = JSON.stringify([note.reviewer, note.step]);
      holding.delete(place);
      holding.set(place, note);
    }
    return [...holding.values()].filter((note) => note.text || note.labels.length || note.grade_right !== null);
  },

  /** What this reviewer says of a row at a step (null: of the whole). */
  mine(row, step) {
    return notes.of(row).find((note) => note.reviewer === notes.reviewer && note.step === step && !stale(note, row));
  },

  /** Whether somebody has said if the grade is right, of the record as it is. */
  reviewed(row) {
    return notes.of(row).some((note) => note.grade_right !== null && !stale(note, row));
  },

  /** Whether the grade is kept from this reviewer, who has not judged yet. */
  hidden(row) {
    return INDEX.blind && (notes.mine(row, null)?.grade_right ?? null) === null;
  },

  /** Add a note; resolves to what became of it, in words. */
  async add(row, step, said) {
    const note = {
      schema: 1,
      episode_id: row.id,
      record_sha256: row.sha,
      at: new Date().toISOString(),
      reviewer: notes.reviewer,
      labels: said.labels,
      grade_right: said.grade_right,
      step,
      text: said.text,
    };
    if (INDEX.notes_url) {
      const refusal = await sent(note);
      if (!refusal) {
        notes.take([note]);
        return "Written to the notes file.";
      }
      return `${refusal} ${kept(row, note)}`;
    }
    return kept(row, note);
  },

  /** The notes of this browser, as a notes file. */
  file() {
    return [...notes.own.values()]
      .flat()
      .map((note) => `${JSON.stringify(note)}\n`)
      .join("");
  },
};

function appended(map, key, value) {
  map.set(key, [...(map.get(key) ?? []), value]);
  return map.get(key);
}

/** Whether a note was made on another version of the row's record. */
function stale(note, row) {
  return note.record_sha256 !== row.sha;
}

function isNote(value) {
  if (!isObject(value) || typeof value.episode_id !== "string" || typeof value.reviewer !== "string") return false;
  value.labels = Array.isArray(value.labels) ? value.labels.filter((label) => typeof label === "string") : [];
  value.grade_right = typeof value.grade_right === "boolean" ? value.grade_right : null;
  value.step = Number.isInteger(value.step) ? value.step : null;
  value.text = textOf(value.text);
  value.at = textOf(value.at);
  return true;
}

/** The notes of a file's text; a line that is none is left out. */
function notesIn(text) {
  return (text ?? "").split("\n").flatMap((line) => {
    try {
      const note = JSON.parse(line);
      return isNote(note) ? [note] : [];
    } catch {
      return [];
    }
  });
}

function kept(row, note) {
  const own = appended(notes.own, row.at, note);
  const saved = memory.set(`${NOTES_PREFIX}${row.id}`, own.map((one) => JSON.stringify(one)).join("\n"));
  return saved
    ? "Kept in this browser; download the notes to share them."
    : "Kept only until this page is closed: download it.";
}

async function sent(note) {
  try {
    const answer = await fetch(INDEX.notes_url, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(note),
    });
    return answer.ok ? "" : `Not written: ${await answer.text()}.`;
  } catch {
    return "Not written: the review server does not answer.";
  }
}

/** Fetch the notes that the server has by now. */
async function fetchNotes() {
  if (!INDEX.notes_url) return;
  try {
    const answer = await fetch(INDEX.notes_url);
    if (!answer.ok) return;
    notes.given.clear();
    notes.take(notesIn(await answer.text()));
  } catch {
    say("The review server does not answer.");
  }
}
