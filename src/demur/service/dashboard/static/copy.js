// Buttons that copy the text of another part of the page, or a link to this page or to another one.
const copiedText = (button) => {
  if (button.dataset.copy) return document.getElementById(button.dataset.copy).textContent;
  return new URL(button.dataset.copyLink || location.href, location.href).href;
};
const set = (root) => {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll("button[data-copy], button[data-copy-link]")) {
    button.hidden = false;
    const word = button.textContent;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(copiedText(button));
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not copied";
      }
      setTimeout(() => {
        button.textContent = word;
      }, 1600);
    });
  }
};
set(document);
document.addEventListener("demur:fresh", (event) => set(event.target));
