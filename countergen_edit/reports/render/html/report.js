"use strict";
(() => {
  const PAGE = 50; // rows of a long table that are shown at first
  const all = (where, what) => [...where.querySelectorAll(what)];

  const tabs = all(document, "[role=tab]");
  const sections = tabs.map((tab) => document.getElementById(tab.getAttribute("aria-controls")));

  function select(i, focus) {
    tabs.forEach((tab, k) => {
      tab.setAttribute("aria-selected", String(k === i));
      tab.tabIndex = k === i ? 0 : -1;
      sections[k].hidden = k !== i;
    });
    if (focus) tabs[i].focus();
    tabs[i].scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  function fromAddress() {
    const i = sections.findIndex((section) => `#${section.id}` === location.hash);
    select(Math.max(i, 0), false);
  }

  const KEYS = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
  tabs.forEach((tab, i) => {
    sections[i].setAttribute("role", "tabpanel");
    sections[i].setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", () => {
      select(i, false);
      history.replaceState(null, "", `#${sections[i].id}`);
    });
    tab.addEventListener("keydown", (event) => {
      const step = KEYS[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const n = tabs.length;
      const to = Number.isFinite(step) ? (i + step + n) % n : step < 0 ? 0 : n - 1;
      select(to, true);
      history.replaceState(null, "", `#${sections[to].id}`);
    });
  });

  const folded = (text) => text.trim().toLocaleLowerCase();

  function value(cell) {
    if (cell.dataset.sort !== undefined) {
      return cell.dataset.sort === "" ? NaN : Number(cell.dataset.sort);
    }
    const text = folded(cell.textContent);
    return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
  }

  function compare(a, b) {
    const missing = (x) => x === "" || Number.isNaN(x);
    if (missing(a) || missing(b)) return null;
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  }

  all(document, "table").forEach((table) => {
    const bodies = [...table.tBodies];
    const rows = all(table, "tbody > tr:not(.group)");
    const search = document.querySelector(`input[data-for="${table.id}"]`);
    const said = document.querySelector(`output[for="${table.id}"]`);
    let words; // of every row, once they are searched
    let shown = PAGE;

    const more = document.createElement("button");
    more.type = "button";
    more.className = "more";
    more.addEventListener("click", () => {
      shown += 10 * PAGE;
      show();
    });

    function kept() {
      const wanted = search ? folded(search.value).split(/\s+/).filter(Boolean) : [];
      if (!wanted.length) return new Set(rows);
      words ??= rows.map((row) => {
        const group = row.parentElement.querySelector(".group");
        return folded(`${group ? group.textContent : ""} ${row.textContent}`);
      });
      return new Set(rows.filter((_, i) => wanted.every((word) => words[i].includes(word))));
    }

    function show() {
      const found = kept();
      let count = 0;
      for (const body of bodies) {
        let empty = true;
        for (const row of body.rows) {
          if (row.className === "group") continue;
          row.hidden = !found.has(row) || ++count > shown;
          if (!row.hidden) empty = false;
        }
        body.hidden = empty;
      }
      more.hidden = found.size <= shown;
      more.dataset.left = found.size - shown;
      more.textContent = `Show more (${found.size - shown} left)`;
      if (said) said.textContent = `${found.size} of ${rows.length}`;
    }

    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
        for (const body of bodies) {
          const own = [...body.rows].filter((row) => row.className !== "group");
          const keyed = own.map((row) => [value(row.cells[column]), row]);
          keyed.sort(([a], [b]) => {
            const order = compare(a, b);
            // What is missing stays at the end, whichever way the others are sorted.
            if (order === null) return Number(Number.isNaN(a) || a === "") - Number(Number.isNaN(b) || b === "");
            return way * order;
          });
          body.append(...keyed.map(([, row]) => row));
        }
        show();
      });
    });
    if (search) search.addEventListener("input", () => { shown = PAGE; show(); });
    if (rows.length > PAGE) table.parentElement.after(more);
    if (rows.length > PAGE || said) show();
  });

  // Only a table that is scrolled sideways sets its first column apart.
  document.addEventListener("scroll", ({ target }) => {
    if (target.className === "scroll" || target.className === "scroll moved") {
      target.className = target.scrollLeft > 0 ? "scroll moved" : "scroll";
    }
  }, true);

  document.documentElement.classList.add("js");
  if (tabs.length > 1) {
    document.querySelector(".tabs").hidden = false;
    addEventListener("hashchange", fromAddress);
    fromAddress();
  }
})();
