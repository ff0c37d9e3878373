// Narrows the reference while somebody types or chooses; the form does the same without this.
const field = document.querySelector("input[data-filter]");
const rows = [...document.querySelectorAll("tr[data-text]")].map((row) => [row, row.dataset.text.toLowerCase()]);
const count = document.querySelector("[data-found]");
const none = document.querySelector("[data-none]");

const choices = [...document.querySelectorAll("select[data-filter-by]")];

const narrow = () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const [row, text] of rows) {
    const chosen = choices.every((one) => !one.value || row.dataset[one.dataset.filterBy] === one.value);
    const fits = chosen && words.every((word) => text.includes(word) || text.includes(word.replaceAll(" ", "_")));
    row.hidden = !fits;
    found += fits ? 1 : 0;
  }
  for (const family of document.querySelectorAll(".family")) family.hidden = !family.querySelector("tr[data-text]:not([hidden])");
  count.textContent = String(found);
  none.hidden = found > 0;
};

field?.addEventListener("input", narrow);
for (const one of choices) one.addEventListener("change", narrow);
