// Labels from the keyboard. Each label goes to the API; the list stays where it is.
const queue = document.querySelector("[data-queue]");
const announce = document.querySelector("[data-announce]");
const words = { good: "good", false_refusal: "false refusal", missed_harm: "missed harm" };
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

const label = async (item, value) => {
  const form = item.querySelector("form.label");
  if (!form) return;
  const note = form.elements.note.value.trim();
  const better = form.elements.answer.value.trim();
  // A note is either a remark or an answer; where there are both, the answer comes last and counts.
  const notes = better ? [...(note ? [note] : []), `answer: ${better}`] : [note];
  let kept = false;
  try {
    for (const one of notes) {
      const answer = await fetch(`/v1/decisions/${encodeURIComponent(item.dataset.id)}/labels`, {
        method: "POST",
        headers: { "content-type": "application/json", accept: "application/json" },
        body: JSON.stringify({ value, note: one }),
      });
      kept = answer.ok;
      if (!kept) break;
    }
  } catch {
    kept = false;
    // Told below, like every other reason why it was not kept.
  }
  tell(item, kept ? value : null);
};

const tell = (item, value) => {
  let said = item.querySelector(".said");
  if (!said) {
    said = document.createElement("p");
    said.className = "said";
    item.querySelector(".what").append(said);
  }
  const tag = document.createElement("span");
  tag.className = value ? `tag l-${value}` : "tag deny";
  tag.textContent = value ? words[value] : "not kept";
  said.replaceChildren(tag, value ? " just now" : " The service could not be reached, or the key may not label.");
  item.classList.toggle("done", Boolean(value));
  announce.textContent = value ? `Labelled ${words[value]}` : "The label was not kept";
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
  const show = () => {
    toggle.setAttribute("aria-pressed", String(keys));
    toggle.textContent = keys ? "Keys on" : "Keys off";
  };
  bar.hidden = false;
  show();
  toggle.addEventListener("click", () => {
    keys = !keys;
    show();
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
    onward();
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
    } else if (event.key in marks && item) {
      await label(item, marks[event.key]);
      onward();
    }
  });
}
