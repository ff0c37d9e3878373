// Buttons that save the text of another part of the page as a file.
for (const button of document.querySelectorAll("button[data-download]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const text = document.getElementById(button.dataset.download).textContent;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: button.dataset.type }));
    link.download = button.dataset.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}
