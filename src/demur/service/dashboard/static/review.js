// Labels from the keyboard. The list stays where it is, and the counts move.
const queue = document.querySelector("[data-queue]");
const announce = document.querySelector("[data-announce]");
const words = { good: "good", false_refusal: "false refusal", missed_harm: "missed harm", withdrawn: "withdrawn" };
const marks = { g: "good", f: "false_refusal", m: "missed_harm" };

const items = () => [...queue.querySelectorAll(".item")];
let current = -1;

const go = (index) => {
  const all = items();
  current = Math.max(0, Math.min(index, all.length - 1));
  for (const [place, item] of all.entries()) item.classList.toggle("current", place === current);
  all[current]?.focus({ preventScroll: true });
  all[current]?.scrollIntoView({ block: "nearest" });
};

const onward = () => {
  const all = items();
  const next = all.findIndex((item, place) => place > current && !item.classList.contains("done"));
  if (next >= 0) go(next);
};

const number = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");

const label = async (item, value) => {
  const form = item.querySelector("form.label");
  if (!form) return;
  const fields = new URLSearchParams(new FormData(form));
  fields.set("value", value);
  let kept = null;
  try {
    const answer = await fetch(form.action, {
      method: "POST",
      headers: { accept: "application/json" },
      body: fields,
    });
    if (answer.ok) kept = await answer.json();
  } catch {
    // Reported below, like every other reason why it was not kept.
  }
  show(item, kept ? value : null, kept);
  if (kept) count(kept.counts);
};

// The label says itself what becomes of it, and can be taken back.
const show = (item, value, kept) => {
  let said = item.querySelector(".said");
  if (!said) {
    said = document.createElement("p");
    said.className = "said";
    item.querySelector(".what").append(said);
  }
  const withdrawn = value === "withdrawn";
  const tag = document.createElement("span");
  tag.className = value ? `tag l-${value}` : "tag deny";
  tag.textContent = value ? words[value] : "not kept";
  const many = kept && kept.labelled > 1 ? `, ${number(kept.labelled)} cases` : "";
  said.replaceChildren(tag, value ? ` just now${many}` : " The service could not be reached, or the key may not label.");
  if (!value) {
    announce.textContent = "The label was not kept";
    return;
  }
  item.querySelector(".use")?.remove();
  if (kept.use.length) said.after(uses(kept.use));
  item.querySelector("[data-undo]").hidden = withdrawn;
  item.classList.toggle("done", !withdrawn);
  announce.textContent = withdrawn ? "The label was withdrawn" : `Labelled ${words[value]}${many}`;
};

const uses = (lines) => {
  const list = document.createElement("dl");
  list.className = "facts use";
  for (const [commands, words] of lines) {
    const head = document.createElement("dt");
    const code = document.createElement("code");
    code.textContent = commands;
    head.append(code);
    const text = document.createElement("dd");
    text.textContent = words;
    list.append(head, text);
  }
  return list;
};

const count = (counts) => {
  for (const one of document.querySelectorAll("[data-count]")) {
    if (one.dataset.count in counts) one.textContent = number(counts[one.dataset.count]);
  }
  for (const badge of document.querySelectorAll('[data-badge="review"]')) {
    badge.textContent = counts.open < 100 ? String(counts.open) : "99+";
    badge.hidden = !counts.open;
  }
};

const typing = (target) => target.closest("input, textarea, select, [contenteditable]");

if (queue) {
  let keys = true;
  const bar = document.querySelector("[data-keys]");
  const toggle = bar.querySelector("[data-keys-toggle]");
  const dialog = document.querySelector("[data-keys-dialog]");
  try {
    keys = localStorage.getItem("demur-keys") !== "off";
  } catch {
    // Keys are on where nothing can be kept.
  }
  const showKeys = () => {
    toggle.setAttribute("aria-pressed", String(keys));
    toggle.textContent = keys ? "Keys on" : "Keys off";
  };
  bar.hidden = false;
  showKeys();
  toggle.addEventListener("click", () => {
    keys = !keys;
    showKeys();
    try {
      localStorage.setItem("demur-keys", keys ? "on" : "off");
    } catch {
      // It holds for this page, at least.
    }
  });
  bar.querySelector("[data-keys-help]").addEventListener("click", () => dialog.showModal());
  queue.addEventListener("focusin", (event) => {
    const place = items().indexOf(event.target.closest(".item"));
    if (place >= 0 && place !== current) {
      current = place;
      for (const [at, item] of items().entries()) item.classList.toggle("current", at === place);
    }
  });
  queue.addEventListener("submit", async (event) => {
    if (!event.submitter) return;
    event.preventDefault();
    const item = event.target.closest(".item");
    current = items().indexOf(item);
    await label(item, event.submitter.value);
    if (event.submitter.value !== "withdrawn") onward();
  });
  document.addEventListener("keydown", async (event) => {
    if (event.key === "Escape" && typing(event.target)) {
      event.target.blur();
      go(current);
      return;
    }
    if (!keys || dialog.open || typing(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    const item = items()[current];
    if (event.key === "j") go(current + 1);
    else if (event.key === "k") go(current - 1);
    else if (event.key === "?") dialog.showModal();
    else if (event.key === "o" && item) location.href = item.querySelector("h2 a").href;
    else if (event.key === "n" && item) {
      event.preventDefault();
      item.querySelector("input[name=note]")?.focus();
    } else if (event.key === "b" && item) {
      event.preventDefault();
      item.querySelector("textarea[name=answer]")?.focus();
    } else if (event.key === "u" && item && !item.querySelector("[data-undo]")?.hidden) {
      await label(item, "withdrawn");
    } else if (event.key in marks && item) {
      await label(item, marks[event.key]);
      onward();
    }
  });
}
