// The page works without this file. It adds live updates, keys, and buttons that wait before they can be pressed.
"use strict";

const ARMING_MS = 500;

const byId = (id) => document.getElementById(id);

/** Shows what happened to the connection, or hides it again. */
function showConnection(text) {
  const banner = byId("connection");
  if (!banner) return;
  banner.textContent = text || "";
  banner.hidden = !text;
}

/** Buttons that approve can be pressed half a second after they appear. The host checks that too. */
function arm(root) {
  const buttons = root.querySelectorAll("button.arm:not([data-armed]):not(:disabled)");
  buttons.forEach((button) => {
    button.dataset.armed = "wait";
    button.disabled = true;
  });
  setTimeout(() => buttons.forEach((button) => {
    button.dataset.armed = "ready";
    button.disabled = button.closest("[data-closed]") !== null;
  }), ARMING_MS + 50);
}

function submitAtOnce() {
  const form = document.querySelector("form[data-submit-at-once]");
  if (form) form.requestSubmit();
}

// Live updates -----------------------------------------------------------------------------------------------------

let loading = false;
let again = false;

async function load(url) {
  const response = await fetch(url, { headers: { accept: "text/html" }, redirect: "error" });
  if (response.status === 401 || response.status === 403) throw new Error("restarted");
  if (!response.ok) throw new Error("failed");
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

/** Is the user writing or choosing something that must not be replaced? */
function isBusy() {
  const detail = byId("detail");
  if (!detail) return false;
  const hasText = [...detail.querySelectorAll("textarea")].some((area) => area.value !== area.defaultValue);
  return hasText || detail.querySelector("details.menu[open]") !== null;
}

function questionOf(root) {
  const question = root.querySelector("#detail .question");
  return question ? question.dataset.number : "";
}

/** The address of this page with the selected question, so that the same part of the list is loaded. */
function addressOf(number) {
  const address = new URL(location.href);
  address.searchParams.delete("answered");
  if (number) address.searchParams.set(number[0] === "i" ? "interview" : "question", number.replace("i", ""));
  return address.pathname + address.search;
}

function showHint(number, page) {
  // The question on the screen was closed elsewhere: say so, and leave it readable.
  const shown = document.querySelector("#detail .question");
  if (!shown || shown.dataset.closed) return;
  shown.dataset.closed = "true";
  shown.querySelectorAll("form button, form textarea, form a.button").forEach((control) => {
    control.disabled = true;
    control.setAttribute("aria-disabled", "true");
  });
  const notice = page.querySelector("#detail .notice p");
  const hint = document.createElement("p");
  hint.className = "receipt closed-hint";
  hint.setAttribute("role", "status");
  hint.textContent = notice ? notice.textContent : "This question is closed.";
  const next = document.createElement("a");
  next.href = "/";
  next.textContent = "Next question";
  hint.append(" ", next);
  shown.prepend(hint);
}

/** Loads the list again, and the selected question if there was none. */
async function refresh() {
  if (loading) {
    again = true;
    return;
  }
  loading = true;
  try {
    const number = questionOf(document);
    const page = await load(addressOf(number));
    replace(page, "list");
    replace(page, "pending-count");
    document.title = page.title;
    notifyAboutNew(page);
    if (number && questionOf(page) !== number) {
      showHint(number, page);
    } else if (!number && !isBusy()) {
      replace(page, "detail");
    }
    showConnection("");
  } catch (error) {
    if (error.message === "restarted") restarted();
  } finally {
    loading = false;
    if (again) {
      again = false;
      refresh();
    }
  }
}

function replace(page, id) {
  const now = byId(id);
  const next = page.getElementById(id);
  if (!now || !next) return;
  const focused = now.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const fresh = document.adoptNode(next);
  const scrolled = now.scrollTop;
  now.replaceWith(fresh);
  fresh.scrollTop = scrolled;
  if (focused) {
    const link = [...fresh.querySelectorAll("a[href]")].find((one) => one.getAttribute("href") === focused);
    if (link) link.focus();
  }
  arm(fresh);
  offerNotifications();
}

let stream = null;
function follow() {
  if (document.body.dataset.kind !== "live" || (stream && stream.readyState !== EventSource.CLOSED)) return;
  stream = new EventSource("/events");
  stream.addEventListener("open", () => {
    document.documentElement.dataset.events = "open";
  });
  stream.addEventListener("inbox", () => {
    showConnection("");
    document.dispatchEvent(new Event("toolhost:change"));
    if (byId("list")) refresh();
    else refreshCount();
  });
  stream.addEventListener("exit", () => {
    stream.close();
    showConnection("The host has exited. This page connects again when it runs.");
    setTimeout(reconnect, 2000);
  });
  stream.addEventListener("error", () => {
    stream.close();
    showConnection("The host does not answer. Connecting again…");
    setTimeout(reconnect, 2000);
  });
}

// A browser opens few connections to one host, so one hidden tab follows the events for notifications, and no other.
document.addEventListener("visibilitychange", async () => {
  if (!document.hidden) {
    follow();
    if (byId("list")) refresh();
    return;
  }
  if (stream) stream.close();
  if (!("Notification" in window) || Notification.permission !== "granted" || !navigator.locks) return;
  await navigator.locks.request("toolhost-notify", async () => {
    if (!document.hidden) return;
    follow();
    await new Promise((visible) => document.addEventListener("visibilitychange", visible, { once: true }));
  });
});

async function refreshCount() {
  try {
    const page = await load("/");
    replace(page, "pending-count");
    notifyAboutNew(page);
  } catch (error) {
    if (error.message === "restarted") restarted();
  }
}

/** Asks whether the host is there again, and whether this browser is still connected to it. */
async function reconnect() {
  try {
    const response = await fetch("/", { redirect: "error" });
    if (response.status === 401 || response.status === 403) return restarted();
    if (!response.ok) throw new Error("failed");
    showConnection("");
    follow();
  } catch {
    setTimeout(reconnect, 2000);
  }
}

function restarted() {
  if (stream) stream.close();
  showConnection("The host was started again. Open the link that it printed, or the one that `host ui` prints.");
}

// Notifications ----------------------------------------------------------------------------------------------------

const seen = new Set([...document.querySelectorAll("a.row")].map((row) => row.pathname + row.search));

function offerNotifications() {
  const button = byId("notify");
  if (!button || !("Notification" in window) || Notification.permission !== "default") return;
  button.hidden = false;
  button.onclick = async () => {
    await Notification.requestPermission();
    button.hidden = true;
  };
}

function notifyAboutNew(page) {
  const rows = [...page.querySelectorAll("a.row"), ...document.querySelectorAll("a.row")];
  const fresh = rows.filter((row) => !seen.has(row.pathname + row.search));
  fresh.forEach((row) => seen.add(row.pathname + row.search));
  if (!fresh.length || !document.hidden || !("Notification" in window) || Notification.permission !== "granted") return;
  const text = fresh[0].querySelector(".row-title").textContent;
  const more = new Set(fresh.map((row) => row.search)).size - 1;
  const notice = new Notification("Toolhost asks", { body: more ? `${text} and ${more} more` : text, tag: "toolhost" });
  notice.onclick = () => window.focus();
}

// Keys -------------------------------------------------------------------------------------------------------------

function select(step) {
  const rows = [...document.querySelectorAll("a.row")];
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.getAttribute("aria-current") === "true");
  const next = rows[Math.min(Math.max(at + step, 0), rows.length - 1)];
  if (next && next !== rows[at]) next.click();
}

function press(key) {
  const control = document.querySelector(`#detail [data-key="${key}"]`);
  if (!control || control.disabled || control.getAttribute("aria-disabled") === "true") return false;
  // In a narrow window the list hides the question.
  if (!control.checkVisibility()) return false;
  if (control.tagName === "DETAILS") {
    control.open = !control.open;
    const field = control.querySelector("textarea, input, ul button");
    if (control.open && field) field.focus();
  } else {
    control.click();
  }
  return true;
}

function toggleKeys() {
  const help = byId("keys");
  if (!help) return;
  if (help.open) help.close();
  else help.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  const writes = target.closest && target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
  if (event.key === "Escape") {
    const menu = document.querySelector("details.menu[open]");
    if (menu) {
      menu.open = false;
      menu.querySelector("summary").focus();
    } else if (writes) {
      target.blur();
    }
    return;
  }
  // A key that is held down answers one question only, and none behind a dialog.
  const dialog = document.querySelector("dialog[open]");
  if (writes || event.repeat || (dialog && event.key !== "?")) return;
  const handled = {
    j: () => select(1),
    k: () => select(-1),
    y: () => press("y"),
    a: () => press("a"),
    n: () => press("n"),
    e: () => press("e"),
    "?": toggleKeys,
  }[event.key];
  if (handled) {
    event.preventDefault();
    handled();
  }
});

// One menu at a time.
document.addEventListener("toggle", (event) => {
  const menu = event.target;
  if (!menu.matches || !menu.matches("details.menu") || !menu.open) return;
  document.querySelectorAll("details.menu[open]").forEach((other) => {
    if (other !== menu) other.open = false;
  });
}, true);

// A double click must not answer the next question.
document.addEventListener("submit", (event) => {
  if (event.target.dataset.sent) {
    event.preventDefault();
    return;
  }
  event.target.dataset.sent = "true";
  setTimeout(() => { delete event.target.dataset.sent; }, 3000);
});

// Times are relative to now, not to when the page was loaded.
function updateTimes() {
  document.querySelectorAll("time.relative").forEach((time) => {
    const seconds = Math.floor((Date.now() - Date.parse(time.dateTime)) / 1000);
    if (seconds < 1) return;
    if (seconds < 120) time.textContent = `${seconds} s ago`;
    else if (seconds < 7200) time.textContent = `${Math.floor(seconds / 60)} min ago`;
    else if (seconds < 172800) time.textContent = `${Math.floor(seconds / 3600)} h ago`;
    else time.textContent = `${Math.floor(seconds / 86400)} days ago`;
  });
}

document.querySelector('a.row[aria-current="true"]')?.scrollIntoView({ block: "nearest" });
setInterval(updateTimes, 10000);
arm(document);
submitAtOnce();
offerNotifications();
follow();
