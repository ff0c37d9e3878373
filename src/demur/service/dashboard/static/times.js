// Times in the zone of the reader, unless the page shows UTC: texts, tooltips, axes and fields.
const isLocal = document.documentElement.dataset.zone !== "utc";
const zoneName = Intl.DateTimeFormat().resolvedOptions().timeZone;
const two = (number) => String(number).padStart(2, "0");
const dateOf = (time) => `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
const clockOf = (time) => `${two(time.getHours())}:${two(time.getMinutes())}`;
const secondsOf = (time) => `${clockOf(time)}:${two(time.getSeconds())}`;
const formats = {
  clock: secondsOf,
  short: (time) => `${dateOf(time).slice(5)} ${secondsOf(time)}`,
  minute: (time) => `${dateOf(time)} ${clockOf(time)}`,
  full: (time) => `${dateOf(time)} ${secondsOf(time)}`,
};
const day = 86400;

const parse = (text) => {
  const time = new Date(text);
  return Number.isNaN(time.valueOf()) ? null : time;
};

// The round local times from `start` on, `step` seconds apart; days may have 23 or 25 hours.
const roundTimes = (start, end, step) => {
  const found = [];
  const at = new Date(start);
  at.setHours(0, 0, 0, 0);
  if (step >= day) {
    const days = step / day;
    // The same days as in UTC, so that both zones show the same dates.
    while ((Math.round((at - at.getTimezoneOffset() * 60000) / 86400000) % days) !== 0) at.setDate(at.getDate() - 1);
    for (; at < end; at.setDate(at.getDate() + days)) if (at >= start) found.push(new Date(at));
  } else {
    for (let place = 0; at < end; place += 1) {
      if (at >= start) found.push(new Date(at));
      at.setTime(at.getTime() + step * 1000);
    }
  }
  return found;
};

const drawAxis = (axis) => {
  const [start, end] = [parse(axis.dataset.start), parse(axis.dataset.end)];
  const step = Number(axis.dataset.step);
  if (!start || !end || !(step > 0)) return;
  const [height, shapes] = [Number(axis.dataset.y), []];
  for (const time of roundTimes(start, end, step)) {
    const x = (100 * (time - start)) / (end - start);
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    for (const [name, value] of Object.entries({ class: "tick", x1: `${x}%`, x2: `${x}%`, y1: height, y2: height + 4 })) line.setAttribute(name, value);
    shapes.push(line);
    if (x < 3 || x > 97) continue;
    const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
    for (const [name, value] of Object.entries({ class: "when", x: `${x}%`, y: height + 16, "text-anchor": "middle" })) text.setAttribute(name, value);
    text.textContent = step >= day || clockOf(time) === "00:00" ? dateOf(time).slice(5) : clockOf(time);
    shapes.push(text);
  }
  axis.replaceChildren(...shapes);
};

const showLocal = (root) => {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const time = parse(element.dateTime);
    if (!time) continue;
    element.textContent = (formats[element.dataset.style] ?? formats.full)(time);
    element.title = `${formats.full(time)} ${zoneName}`;
  }
  for (const title of root.querySelectorAll("title[data-since]")) {
    const [since, until] = [parse(title.dataset.since), parse(title.dataset.until)];
    if (since && until) title.textContent = title.textContent.replace(/^.*? UTC/, `${formats.minute(since)} to ${clockOf(until)}`);
  }
  for (const axis of root.querySelectorAll("g.times")) drawAxis(axis);
  for (const field of root.querySelectorAll("input[data-utc]")) {
    const time = field.dataset.utc && parse(field.dataset.utc);
    if (time) field.value = `${dateOf(time)}T${secondsOf(time)}`;
  }
  for (const word of root.querySelectorAll("[data-zone-word]")) word.textContent = "(local time)";
};

for (const form of document.querySelectorAll("form[data-times]")) {
  form.addEventListener("formdata", (event) => {
    // The address has every time in UTC, so that it means the same in every time zone.
    for (const field of form.querySelectorAll("input[data-utc]")) {
      const time = field.value && parse(isLocal ? field.value : `${field.value}Z`);
      if (time) event.formData.set(field.name, time.toISOString());
    }
  });
}

if (isLocal) {
  showLocal(document);
  document.addEventListener("demur:fresh", (event) => showLocal(event.target));
  for (const element of document.querySelectorAll("[data-zone-name]")) element.textContent = `times in ${zoneName}`;
}
