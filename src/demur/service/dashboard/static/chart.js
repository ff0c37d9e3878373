// Zoom: dragging over a chart with `data-zoom` opens the page with the range that was dragged over.
const least = 8;

const zoom = (figure, from, to) => {
  const [start, end] = [Date.parse(figure.dataset.start), Date.parse(figure.dataset.end)];
  const at = (share) => new Date(start + (end - start) * Math.min(1, Math.max(0, share))).toISOString();
  const target = new URL(location.href);
  for (const name of ["last", "before", "after", "page"]) target.searchParams.delete(name);
  target.searchParams.set("since", at(Math.min(from, to)));
  target.searchParams.set("until", at(Math.max(from, to)));
  location.href = target.href;
};

document.addEventListener("pointerdown", (event) => {
  const figure = event.target.closest?.("[data-zoom]");
  const bars = figure?.querySelector(".bars");
  if (!bars || event.button !== 0 || event.pointerType === "touch" || !bars.contains(event.target)) return;
  const box = bars.getBoundingClientRect();
  const shareOf = (x) => (x - box.left) / box.width;
  const [began, first] = [event.clientX, shareOf(event.clientX)];
  const shade = document.createElement("div");
  shade.className = "zoom-shade";
  let dragged = false;
  const move = (moved) => {
    if (!dragged && Math.abs(moved.clientX - began) < least) return;
    if (!dragged) figure.querySelector(".plot").append(shade);
    dragged = true;
    const [left, right] = [Math.max(box.left, Math.min(began, moved.clientX)), Math.min(box.right, Math.max(began, moved.clientX))];
    const outer = figure.querySelector(".plot").getBoundingClientRect();
    shade.style.left = `${left - outer.left}px`;
    shade.style.width = `${right - left}px`;
  };
  const stop = (ended) => {
    document.removeEventListener("pointermove", move);
    document.removeEventListener("pointerup", stop);
    document.removeEventListener("pointercancel", stop);
    shade.remove();
    if (!dragged || ended.type !== "pointerup") return;
    // The click that follows a drag is not one on a bar.
    document.addEventListener("click", (click) => click.preventDefault(), { capture: true, once: true });
    zoom(figure, first, shareOf(ended.clientX));
  };
  document.addEventListener("pointermove", move);
  document.addEventListener("pointerup", stop);
  document.addEventListener("pointercancel", stop);
});
document.addEventListener("dragstart", (event) => {
  if (event.target.closest?.("[data-zoom]")) event.preventDefault();
});
