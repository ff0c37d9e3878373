// Sends the calls that somebody fills in, and shows what comes back.
const maxShown = 100_000;
const key = document.querySelector("#api-key");

const requestOf = (form) => {
  let path = form.dataset.path;
  const query = new URLSearchParams();
  for (const field of form.querySelectorAll("[data-in]")) {
    const value = field.value;
    if (field.dataset.in === "path") {
      const encoded = encodeURIComponent(value);
      path = path.replace(`{${field.name}}`, () => ("slashes" in field.dataset ? encoded.replaceAll("%2F", "/") : encoded));
    } else if (value) query.set(field.name, value);
  }
  const headers = { accept: "application/json, */*" };
  const body = form.querySelector("textarea")?.value;
  if (form.dataset.type) headers["content-type"] = form.dataset.type;
  if (key.value.trim()) headers.authorization = `Bearer ${key.value.trim()}`;
  const target = query.size ? `${path}?${query}` : path;
  return { target, options: { method: form.dataset.method, headers, body: form.dataset.type ? body : undefined } };
};

const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

const curlOf = ({ target, options }) => {
  const parts = [`curl -s -X ${options.method} ${quote(location.origin + target)}`];
  if (options.headers.authorization) parts.push('-H "authorization: Bearer $DEMUR_KEY"');
  if (options.body !== undefined) parts.push(`-H ${quote(`content-type: ${options.headers["content-type"]}`)}`, `-d ${quote(options.body)}`);
  return parts.join(" \\\n  ");
};

const readable = (text, kind) => {
  let shown = text;
  if (/json\b/.test(kind) && !/ndjson/.test(kind)) {
    try {
      shown = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // It is shown as it came.
    }
  }
  return shown.length > maxShown ? `${shown.slice(0, maxShown)}\n… and ${shown.length - maxShown} characters more` : shown;
};

const send = async (form) => {
  const request = requestOf(form);
  const part = (name) => form.querySelector(`[data-${name}]`);
  part("curl").textContent = curlOf(request);
  part("curl").hidden = part("answer").hidden = false;
  part("status").textContent = "…";
  part("facts").textContent = part("content").textContent = "";
  part("send").disabled = true;
  const began = performance.now();
  try {
    const answer = await fetch(request.target, request.options);
    const kind = answer.headers.get("content-type") ?? "";
    const isText = /json|text|yaml|xml/.test(kind);
    const content = isText ? await answer.text() : await answer.blob();
    const size = isText ? new Blob([content]).size : content.size;
    part("status").textContent = `${answer.status} ${answer.statusText}`.trim();
    part("facts").textContent = `${Math.round(performance.now() - began)} ms · ${size} bytes · ${kind}`;
    part("content").textContent = isText ? readable(content, kind) : "This is a file; the command above fetches it.";
  } catch {
    part("status").textContent = "Not reachable";
  } finally {
    part("send").disabled = false;
  }
};

for (const form of document.querySelectorAll("form[data-operation]")) {
  form.querySelector("[data-send]").hidden = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
}

// A link to an operation or a type opens it.
const openTarget = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target?.matches("details")) {
    target.open = true;
    target.scrollIntoView();
  }
};
addEventListener("hashchange", openTarget);
openTarget();
