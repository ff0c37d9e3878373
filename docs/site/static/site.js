// The theme names neither of its side bars, and a block of code that scrolls needs the keyboard.
document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "All pages");
document.querySelector(".toc-drawer")?.setAttribute("aria-label", "This page");
for (const block of document.querySelectorAll("pre, .table-wrapper, p:has(> img)")) {
  if (block.scrollWidth > block.clientWidth) block.tabIndex = 0;
}
