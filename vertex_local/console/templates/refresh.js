const state = document.getElementById("state");
let isLive = document.querySelector("[data-live]");
function follow(log) { log.scrollTop = log.scrollHeight; }
document.querySelectorAll("pre.log").forEach(follow);
async function refresh() {
  try {
    const response = await fetch(location.href);
    if (!response.ok) throw response;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    isLive = page.querySelector("[data-live]");
    for (const part of document.querySelectorAll("[data-part]")) {
      const fresh = page.querySelector(`[data-part="${part.dataset.part}"]`);
      const isUsed = part.querySelector(":focus, :checked") || !getSelection().isCollapsed;
      if (!fresh || fresh.innerHTML === part.innerHTML) continue;
      if (isUsed) { isLive = true; continue; }
      const isAtEnd = part.scrollTop + part.clientHeight > part.scrollHeight - 20;
      const isOpen = [...part.querySelectorAll("details")].map((details) => details.open);
      part.innerHTML = fresh.innerHTML;
      part.querySelectorAll("details").forEach((details, at) => { details.open = isOpen[at] || details.open; });
      if (part.matches("pre.log") && isAtEnd) follow(part);
    }
    document.body.classList.remove("lost");
    state.textContent = "";
  } catch (problem) {
    document.body.classList.add("lost");
    state.textContent = problem.status ? `the service responds with error ${problem.status}: reload` : "no response from the service";
  }
  if (isLive) setTimeout(refresh, document.hidden ? 10000 : 2000);
}
if (isLive) setTimeout(refresh, 2000);
