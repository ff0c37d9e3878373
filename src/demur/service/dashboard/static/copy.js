// Buttons that copy the text of another part of the page.
const set = (root) => {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    const word = button.textContent;
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(source.textContent);
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
