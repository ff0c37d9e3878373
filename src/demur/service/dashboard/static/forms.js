// Forms that stay on the page: `data-swap` names the part that the answer replaces.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.matches("[data-clean]")) {
    // Empty fields stay out of the address, so that it can be passed on.
    for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
    return;
  }
  const part = form.dataset.swap && document.getElementById(form.dataset.swap);
  if (!part) return;
  event.preventDefault();
  const fields = new URLSearchParams(new FormData(form, event.submitter));
  if (event.submitter) event.submitter.disabled = true;
  try {
    const answer = await fetch(form.action, { method: "POST", body: fields, headers: { accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = answer.ok && page.getElementById(form.dataset.swap);
    if (!fresh) throw new Error("not answered");
    for (const badge of document.querySelectorAll("[data-badge]")) {
      const next = page.querySelector(`[data-badge="${badge.dataset.badge}"]`);
      if (next) badge.replaceWith(document.adoptNode(next));
    }
    if (part.contains(form)) {
      const node = document.adoptNode(fresh);
      part.replaceWith(node);
      node.tabIndex = -1;
      node.focus();
      node.dispatchEvent(new CustomEvent("demur:fresh", { bubbles: true }));
    } else {
      part.replaceChildren(...fresh.childNodes);
      part.dispatchEvent(new CustomEvent("demur:fresh", { bubbles: true }));
    }
  } catch {
    // As if there were no script: the browser shows whatever the service has to say.
    form.removeAttribute("data-swap");
    if (event.submitter) event.submitter.disabled = false;
    form.requestSubmit(event.submitter);
  } finally {
    if (event.submitter) event.submitter.disabled = false;
  }
});

// Parts that are folded only where there is little room.
for (const part of document.querySelectorAll("details[data-open-wide]")) part.open ||= matchMedia("(min-width: 860px)").matches;

for (const form of document.querySelectorAll("form[data-submit-on-change]")) {
  for (const button of form.querySelectorAll("[data-no-script]")) button.hidden = true;
  form.addEventListener("change", () => form.requestSubmit());
}
// A page that comes back from the browser's memory has its fields again.
addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll("form[data-clean] :disabled")) field.disabled = false;
});
