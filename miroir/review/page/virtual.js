// A long list of which only the rows near the window are in the document. All rows are equally high.

const SPARE = 8; // rows kept above and below the window

class VirtualList {
  /** `make(item, at)` gives a row's element; `label` names the list. */
  constructor(label, make) {
    this.element = h("ul", { class: "rows", "aria-label": label });
    this.make = make;
    this.items = [];
    this.shown = new Map();
    this.height = 0;
    this.everything = false; // for paper
    this.current = -1;
  }

  /** Show these items from now on. */
  set(items) {
    const focused = this.element.contains(document.activeElement);
    this.items = items;
    this.shown.clear();
    this.element.replaceChildren();
    this.current = Math.min(this.current, items.length - 1);
    this.measure();
    if (focused) this.focus(this.current);
  }

  /** Learn how high a row is, which changes with the window's width. */
  measure() {
    this.height = parseFloat(getComputedStyle(this.element).getPropertyValue("--row"));
    this.element.style.height = `${this.items.length * this.height}px`;
    for (const [at, row] of this.shown) row.style.transform = `translateY(${at * this.height}px)`;
    this.update();
  }

  /** Bring the rows near the window in, and take the others out. */
  update() {
    if (!this.element.isConnected || !this.height) return;
    const above = -this.element.getBoundingClientRect().top;
    const first = this.everything ? 0 : Math.max(0, Math.floor(above / this.height) - SPARE);
    const last = this.everything
      ? this.items.length - 1
      : Math.min(this.items.length - 1, Math.ceil((above + innerHeight) / this.height) + SPARE);
    for (const [at, row] of this.shown) {
      if (at >= first && at <= last) continue;
      row.remove();
      this.shown.delete(at);
    }
    for (let at = first; at <= last; at += 1) if (!this.shown.has(at)) this.show(at);
  }

  show(at) {
    const row = h("li", {
      class: at === this.current ? "current" : "",
      "aria-setsize": this.items.length,
      "aria-posinset": at + 1,
    });
    put(row, this.make(this.items[at], at));
    row.style.transform = `translateY(${at * this.height}px)`;
    const after = [...this.shown.keys()].filter((other) => other > at);
    this.element.insertBefore(row, after.length ? this.shown.get(Math.min(...after)) : null);
    this.shown.set(at, row);
  }

  /** Make the row at this place the current one: in sight, and its first link focused. */
  focus(at) {
    if (!this.items.length) return;
    this.shown.get(this.current)?.classList.remove("current");
    this.current = Math.max(0, Math.min(at, this.items.length - 1));
    const top = this.element.getBoundingClientRect().top + this.current * this.height;
    const bar = document.getElementById("top").offsetHeight;
    if (top < bar || top + this.height > innerHeight) scrollBy(0, top - (innerHeight - this.height) / 2);
    this.update();
    const row = this.shown.get(this.current);
    row.classList.add("current");
    row.querySelector("a, button")?.focus({ preventScroll: true });
  }
}
