// The theme that the reader chose, set before anything is drawn: none follows the system.
const choices = ["system", "light", "dark"];
const stored = () => {
  try {
    return localStorage.getItem("demur-theme") ?? "system";
  } catch {
    return "system";
  }
};
const wear = (name) => {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
};
let worn = choices.includes(stored()) ? stored() : "system";
wear(worn);

document.addEventListener("DOMContentLoaded", () => {
  const button = document.querySelector("[data-theme-toggle]");
  const name = button?.querySelector("[data-theme-name]");
  if (!name) return;
  const tell = () => {
    name.textContent = `Theme: ${worn}`;
    button.setAttribute("aria-label", name.textContent);
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    worn = choices[(choices.indexOf(worn) + 1) % choices.length];
    wear(worn);
    tell();
    try {
      localStorage.setItem("demur-theme", worn);
    } catch {
      // A browser that keeps nothing still shows the choice until the next page.
    }
  });
  tell();
});
