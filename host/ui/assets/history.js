
// Pages about past calls -------------------------------------------------------------------------------------------

/** Loads a page again that shows what happens now, unless the user is reading or writing in it. */
function refreshMain() {
  const main = byId("main");
  const seconds = Number(main && main.querySelector("[data-refresh]")?.dataset.refresh);
  if (!seconds) return;
  setInterval(async () => {
    const now = byId("main");
    const isInUse = document.hidden || window.scrollY > 200 || String(getSelection())
      || now.querySelector("details[open]") || [...now.querySelectorAll(".table-scroll")].some((one) => one.scrollTop > 0)
      || (now.contains(document.activeElement) && document.activeElement !== now);
    if (isInUse) return;
    try {
      const page = await load(location.pathname + location.search);
      replace(page, "main");
    } catch (error) {
      if (error.message === "restarted") restarted();
    }
  }, seconds * 1000);
}

document.addEventListener("keydown", (event) => {
  const search = document.querySelector("form.filters input[type=search]");
  if (event.key !== "/" || !search || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest && event.target.closest("input, textarea, select")) return;
  event.preventDefault();
  search.focus();
});

refreshMain();
