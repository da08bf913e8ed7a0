"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);

  // Theme: the system's until the reader chooses.
  const theme = byId("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const tell = () => theme.setAttribute("aria-pressed", String(isDark()));
  try {
    const kept = localStorage.getItem("rmsrepro-theme");
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  } catch { /* storage may be forbidden for local files */ }
  theme.hidden = false;
  tell();
  system.addEventListener("change", tell);
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    tell();
    try { localStorage.setItem("rmsrepro-theme", root.dataset.theme); } catch { /* as above */ }
  });

  // Contents: folded on a phone.
  if (matchMedia("(max-width: 60rem)").matches) document.querySelector("nav details").open = false;

  // Commands: copy.
  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const code = byId(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  // Links into a folded part open it.
  const named = () => {
    try {
      return decodeURIComponent(location.hash.slice(1));
    } catch {
      return "";  // a stray % in the address
    }
  };
  const unfold = () => {
    const target = location.hash && byId(named());
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    if (target && target.tagName === "CODE") target.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", unfold);
  unfold();

  // Paper shows everything.
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });

  // Claims: search, and say how many are shown.
  const search = byId("search");
  const rows = [...document.querySelectorAll(".claims tbody tr:not(.none)")];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const count = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) row.hidden = !words.every((word) => texts.get(row).includes(word));
    const only = document.querySelector("input[name=only]:checked").id.slice("only-".length);
    const shown = rows.filter((row) => !row.hidden && (only === "all" || row.classList.contains(only))).length;
    byId("shown").textContent = `${shown} of ${rows.length} shown`;
  };
  byId("find").hidden = false;
  search.addEventListener("input", count);
  for (const choice of document.querySelectorAll("input[name=only]")) choice.addEventListener("change", count);
  count();
})();
