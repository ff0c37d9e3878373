// Lets a log be dropped on the page; it is sent as the form would send it.
const form = document.querySelector("[data-drop]");
const field = form?.querySelector("input[type=file]");
if (field) {
  form.querySelector("[data-drop-hint]").hidden = false;
  for (const kind of ["dragenter", "dragover"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      form.classList.add("over");
    });
  }
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) form.classList.remove("over");
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    form.classList.remove("over");
    if (event.dataTransfer?.files.length) {
      field.files = event.dataTransfer.files;
      form.requestSubmit();
    }
  });
}
