// Times in the reader's zone; the UTC stays in the title.
const full = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false,
});
const short = new Intl.DateTimeFormat(undefined, {
  month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false,
});
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const styles = { clock, short, full };

const local = (root) => {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (!Number.isNaN(moment.valueOf())) time.textContent = (styles[time.dataset.style] ?? full).format(moment);
  }
  for (const text of root.querySelectorAll("text[data-time]")) {
    const moment = new Date(text.dataset.time);
    if (!Number.isNaN(moment.valueOf())) text.textContent = ("clock" in text.dataset ? hour : day).format(moment);
  }
};

local(document);
document.addEventListener("demur:fresh", (event) => local(event.target));
for (const zone of document.querySelectorAll("[data-zone]")) {
  zone.textContent = `times in ${Intl.DateTimeFormat().resolvedOptions().timeZone}`;
}
