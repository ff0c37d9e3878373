// Fetches the page again every few seconds and puts its live parts in place of the old ones.
const every = 5000;
const parts = [...document.querySelectorAll("[data-live]")];
const button = document.querySelector("[data-live-toggle]");
const announce = document.querySelector("[data-announce]");

const keys = (part) => new Set([...part.querySelectorAll("tbody tr a[href^='/decisions/']")].map((link) => link.getAttribute("href")));

const tell = (before, part) => {
  const news = [...part.querySelectorAll("tbody tr")].filter((row) => {
    const link = row.querySelector("a[href^='/decisions/']");
    return link && !before.has(link.getAttribute("href"));
  });
  for (const row of news) row.classList.add("fresh");
  if (news.length && announce) announce.textContent = `${news.length} new ${part.dataset.news}${news.length === 1 ? "" : "s"}`;
};

const refresh = async () => {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok || answer.redirected) throw new Error("not refreshed");
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const old of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(old.id);
    // What somebody reads or has opened is left alone.
    if (!fresh || old.contains(document.activeElement) || old.querySelector("details[open]")) continue;
    const node = document.adoptNode(fresh);
    const before = keys(old);
    old.replaceWith(node);
    node.dispatchEvent(new CustomEvent("demur:fresh", { bubbles: true }));
    if (node.dataset.news) tell(before, node);
  }
};

if (parts.length && button) {
  const name = button.querySelector("[data-live-name]");
  let on = button.getAttribute("aria-pressed") === "true";
  const show = (word) => {
    button.setAttribute("aria-pressed", String(on));
    name.textContent = word;
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    on = !on;
    show(on ? "Live" : "Paused");
  });
  setInterval(async () => {
    if (!on || document.hidden) return;
    try {
      await refresh();
      show("Live");
    } catch {
      name.textContent = "Not reachable";
    }
  }, every);
}
