// What the report holds: tasks and rows in memory, whole records compressed until somebody reads them.

const INDEX = JSON.parse(document.getElementById("index").textContent);

const tasks = INDEX.tasks.map((task, at) => ({ ...task, at, rows: [] }));
const rows = INDEX.rows.map((values, at) => {
  const row = Object.fromEntries(INDEX.columns.map((name, column) => [name, values[column]]));
  const task = tasks[row.task];
  const whole = {
    ...row,
    at,
    task,
    agent: INDEX.agents[row.agent],
    reason: row.reason === null ? null : INDEX.reasons[row.reason],
  };
  task.rows.push(whole);
  return whole;
});
const byId = new Map(rows.map((row) => [row.id, row]));

const KEPT = 12; // records that stay decoded
const decoded = new Map();
const parsed = new Promise((resolve) => {
  if (document.readyState !== "loading") resolve();
  else document.addEventListener("DOMContentLoaded", () => resolve(), { once: true });
});

/** The JSON text of a row's record; null where it is on another page or was left out. */
async function recordText(row) {
  if (row.blob === null) return null;
  await parsed;
  const encoded = document.getElementById(`blob-${row.blob}`).textContent;
  const stream = new Blob([bytesOf(encoded)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** A row's record; null where `recordText` is. */
async function recordOf(row) {
  if (decoded.has(row.at)) return decoded.get(row.at);
  const text = await recordText(row);
  const record = text === null ? null : JSON.parse(text);
  decoded.set(row.at, record);
  if (decoded.size > KEPT) decoded.delete(decoded.keys().next().value);
  return record;
}

function bytesOf(encoded) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(encoded);
  const binary = atob(encoded);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

// Records may be of any shape: what is not of the expected type counts as absent.

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const objectOf = (value) => (isObject(value) ? value : {});
const objectsOf = (value) => (Array.isArray(value) ? value.filter(isObject) : []);
const textOf = (value) => (typeof value === "string" ? value : "");

/** A step's error as one text, or "". */
function errorText(error) {
  if (!isObject(error)) return error === null || error === undefined ? "" : String(error);
  return [textOf(error.error_type), textOf(error.message)].filter(Boolean).join(": ") || "an error without a message";
}
