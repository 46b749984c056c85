"use strict";
// Shows what the loop publishes, and tells it which keys are held. All meaning of keys comes from /bindings.json.

const $ = (id) => document.getElementById(id);
const PHASES = { practice: "Practice: not recorded", recording: "Recording", ended: "Ended" };
let bindings = null;
let state = null;
let view = null;
const held = new Set();
const tapped = new Set();
let axes = [];
let sending = false;
let dirty = false;

// -- to the loop -----------------------------------------------------------------------------------------------------

async function post(path, body) {
  const answer = await fetch(path, {
    method: "POST", headers: { "Content-Type": "application/json", "X-Mimicpipe": "collect" }, body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

async function sendInput() {
  dirty = true;
  if (sending || view === null) return;
  sending = true;
  try {
    while (dirty) {
      const keys = [...new Set([...held, ...tapped])];
      dirty = [...tapped].some((key) => !held.has(key)); // a tap is followed by its end
      tapped.clear();
      await post("/input", { order: performance.timeOrigin + performance.now(), keys, axes, view });
    }
  } catch (error) {
    dirty = false; // the watch on /state says what is wrong
  } finally {
    sending = false;
  }
}

async function command(name) {
  try {
    const answer = await post("/command", { name });
    if (answer.text) say(answer.text, answer.ok ? (name === "save" || answer.text.startsWith("Saved") ? "good" : "") : "bad");
  } catch (error) {
    say(`Not done: ${error.message}`, "bad");
  }
}

function say(text, kind) {
  $("message").textContent = text;
  $("message").className = kind;
}

// -- keys ------------------------------------------------------------------------------------------------------------

function press(code) {
  if (held.has(code)) return;
  held.add(code);
  tapped.add(code);
  mark(code, true);
  sendInput();
}

function release(code) {
  if (!held.delete(code)) return;
  mark(code, false);
  sendInput();
}

function releaseAll() {
  for (const code of [...held]) release(code);
  if (axes.length) { axes = []; sendInput(); }
}

function mark(code, on) {
  const button = document.querySelector(`#keys [data-code="${code}"]`);
  if (button) button.classList.toggle("held", on);
}

function onKeyDown(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || bindings === null) return;
  if (event.code === "Escape") { document.querySelector(".buttons button:not([hidden]):not(:disabled)").focus(); return; }
  const motion = bindings.motion_keys.some(([code]) => code === event.code);
  const bound = bindings.command_keys.find(([code]) => code === event.code);
  const oneArm = state !== null && Object.keys(state.arms).length === 1;
  if (!motion && !bound) return;
  if (event.code === "Tab" && (oneArm || event.shiftKey)) return; // then it moves the focus, as everywhere
  event.preventDefault();
  if (motion) press(event.code);
  else if (!event.repeat) command(bound[3]);
}

function holdButton(button, code) {
  button.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    button.setPointerCapture(event.pointerId);
    press(code);
  });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) button.addEventListener(end, () => release(code));
  button.addEventListener("keydown", (event) => {
    if (event.code === "Space" || event.code === "Enter") { event.preventDefault(); press(code); }
  });
  button.addEventListener("keyup", () => release(code));
  button.addEventListener("blur", () => release(code));
  button.addEventListener("contextmenu", (event) => event.preventDefault());
}

function drawKeys() {
  for (const [code, label, does] of bindings.motion_keys) holdButton(keyButton(code, label, does), code);
  for (const [code, label, does, name] of bindings.command_keys) {
    keyButton(code, label, does).addEventListener("click", () => command(name));
  }
  for (const [what, does] of bindings.pad_words) {
    $("pad-words").append(element("dt", what), element("dd", does));
  }
}

async function labelKeys() {
  // Codes are places; where the browser knows the layout, show what is printed there.
  const layout = await navigator.keyboard?.getLayoutMap?.();
  if (!layout) return;
  for (const button of document.querySelectorAll("#keys [data-code]")) {
    const letter = layout.get(button.dataset.code);
    if (letter && letter.trim() && button.dataset.code.startsWith("Key")) button.querySelector("kbd").textContent = letter.toUpperCase();
  }
}

function keyButton(code, label, does) {
  const button = element("button", "");
  button.type = "button";
  button.dataset.code = code;
  button.append(element("kbd", label), element("span", does));
  $("keys").append(button);
  return button;
}

function element(kind, text) {
  const made = document.createElement(kind);
  made.textContent = text;
  return made;
}

// -- gamepad ---------------------------------------------------------------------------------------------------------

let padBefore = [];

function readPad() {
  if (bindings === null) return;
  const pad = [...navigator.getGamepads()].find((each) => each !== null && each.connected);
  if (!pad) {
    if (padBefore.length) { padBefore = []; axes = []; sendInput(); $("pad").textContent = "Gamepad: none; press a button on it to connect."; }
    return;
  }
  if (!padBefore.length) {
    $("pad").textContent = `Gamepad: ${pad.id}` + (pad.mapping === "standard" ? "" : " (an unknown layout, sticks may be swapped)");
  }
  const motion = [0, 0, 0, 0, 0, 0];
  const zone = bindings.dead_zone;
  for (const [axis, index, sign] of bindings.pad_axes) {
    const value = pad.axes[axis] || 0;
    const size = Math.max(0, Math.abs(value) - zone) / (1 - zone);
    motion[index] += sign * Math.sign(value) * Math.min(1, size);
  }
  for (const [button, index, sign] of bindings.pad_motion_buttons) {
    if (pad.buttons[button]?.pressed) motion[index] += sign;
  }
  const pressed = pad.buttons.map((button) => button.pressed);
  for (const [button, name] of bindings.pad_commands) {
    if (pressed[button] && !padBefore[button]) command(name);
  }
  padBefore = pressed;
  const moves = motion.some((value) => value !== 0);
  if (moves || axes.length) { axes = moves ? motion : []; sendInput(); }
}

// -- the picture -----------------------------------------------------------------------------------------------------

function steerCamera() {
  const scene = $("scene");
  let last = null;
  scene.addEventListener("pointerdown", (event) => { scene.focus(); last = [event.clientX, event.clientY]; scene.setPointerCapture(event.pointerId); });
  scene.addEventListener("pointermove", (event) => {
    if (last === null || view === null) return;
    const [x, y] = last;
    last = [event.clientX, event.clientY];
    view = [view[0] - 0.4 * (last[0] - x), Math.max(-85, Math.min(-5, view[1] - 0.3 * (last[1] - y))), view[2]];
    sendInput();
  });
  for (const end of ["pointerup", "pointercancel"]) scene.addEventListener(end, () => { last = null; });
  scene.addEventListener("wheel", (event) => {
    if (view === null || document.activeElement !== scene) return;
    event.preventDefault();
    view = [view[0], view[1], Math.max(0.4, Math.min(3, view[2] * Math.exp(-event.deltaY / 800)))];
    sendInput();
  }, { passive: false });
}

async function showFrame() {
  const answer = await fetch("/frame.jpg");
  if (!answer.ok) return;
  const image = await createImageBitmap(await answer.blob());
  $("picture").width = image.width;
  $("picture").height = image.height;
  $("picture").getContext("2d").drawImage(image, 0, 0);
  image.close();
}

// -- from the loop ---------------------------------------------------------------------------------------------------

async function watch() {
  let version = 0;
  let frame = -1;
  for (;;) {
    try {
      const answer = await fetch(`/state?after=${version}`);
      if (!answer.ok) throw new Error(await answer.text());
      state = await answer.json();
      alarm(state.phase === "ended" ? state.why : "");
      version = state.version;
      if (view === null) view = state.view;
      show(state);
      if (state.frame !== frame && state.frame > 0) { frame = state.frame; await showFrame(); }
    } catch (error) {
      alarm("No connection: collecting has ended, or its process is stuck. Saved demos are in the file.");
      version = 0;
      frame = -1;
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
}

function alarm(text) {
  if ($("alarm").textContent === text) return;
  $("alarm").textContent = text;
  $("alarm").hidden = text === "";
}

function text(id, value) {
  if ($(id).textContent !== value) $(id).textContent = value;
}

function show(now) {
  const recording = now.phase === "recording";
  text("description", now.description);
  text("origin", `task=${now.task}, variant ${now.variant}, scene ${now.scene.number}`);
  document.title = `${recording ? "● " : ""}${now.task}: collect`;
  $("scene").dataset.phase = now.phase;
  $("scene").dataset.success = now.held >= now.hold_steps;
  text("phase", recording && now.held >= now.hold_steps ? "Success: save it" : PHASES[now.phase]);
  text("clock", now.running ? (now.rate === null ? "" : `${now.rate} of ${now.fps} steps/s`) : now.phase === "ended" ? "stopped" : "waits for you");
  $("start").hidden = now.phase !== "practice";
  $("save").hidden = now.phase === "practice";
  $("save").disabled = now.phase === "ended";
  $("discard").disabled = now.phase === "practice";
  $("next").disabled = now.phase !== "practice";
  meter("held", now.held, now.hold_steps, recording ? `${now.held} of ${now.hold_steps}` : now.success ? "yes" : "no");
  meter("steps", now.steps, now.max_steps, `${now.steps} of ${now.max_steps}`);
  $("steps").classList.toggle("late", now.steps > 0.8 * now.max_steps);
  text("speed", `${now.speed.level + 1} / ${now.speed.levels}`);
  text("speed-text", `${now.speed.metres.toFixed(2)} m/s`);
  showSignals(now);
  showArms(now);
  showPoses(now);
  text("count", `(${now.saved.length})`);
  text("file", now.file);
  $("generate").hidden = now.saved.length === 0;
  text("command", now.generate);
  const key = JSON.stringify(now.saved);
  if ($("saved").dataset.key !== key) {
    $("saved").dataset.key = key;
    $("saved").replaceChildren(...now.saved.map((demo) => element("li", `${demo.name}: ${demo.steps} steps`)));
    $("saved").scrollTop = $("saved").scrollHeight;
  }
}

function meter(id, value, max, words) {
  $(id).max = max;
  $(id).value = value;
  text(`${id}-text`, words);
}

function showSignals(now) {
  const all = [...Object.entries(now.start_signals), ...Object.entries(now.term_signals)];
  const key = JSON.stringify(all);
  if ($("signals").dataset.key === key) return;
  $("signals").dataset.key = key;
  $("signals").replaceChildren(...all.map(([name, on]) => {
    const chip = element("li", `${on ? "✓" : "○"} ${name}`);
    chip.className = on ? "on" : "";
    return chip;
  }));
}

function showArms(now) {
  const tab = document.querySelector('#keys [data-code="Tab"]');
  if (tab) tab.hidden = Object.keys(now.arms).length === 1;
  const rows = Object.entries(now.arms).map(([name, arm]) => [name, arm.closed, now.active.includes(name)]);
  const key = JSON.stringify(rows);
  if ($("arms").dataset.key === key) return;
  $("arms").dataset.key = key;
  $("arms").replaceChildren(...rows.map(([name, closed, active]) => {
    const row = element("div", "");
    row.className = active ? "arm active" : "arm";
    row.append(element("b", name), element("span", `gripper ${closed ? "closed" : "open"}`));
    if (active) row.append(element("span", "steered"));
    return row;
  }));
}

function showPoses(now) {
  if (!$("poses-box").open) return;
  const format = (numbers) => numbers.map((x) => (x === null ? "?" : x.toFixed(3))).join("  ");
  $("poses").replaceChildren(...Object.entries({ ...now.arms, ...now.objects }).map(([name, pose]) => {
    const row = element("tr", "");
    const head = element("th", name);
    head.scope = "row";
    row.append(head, element("td", format(pose.position)), element("td", format(pose.quaternion)));
    return row;
  }));
}

// -- begin -----------------------------------------------------------------------------------------------------------

async function begin() {
  for (const button of document.querySelectorAll("button[data-command]")) {
    button.addEventListener("click", async () => {
      await command(button.dataset.command);
      if (["start", "discard", "next", "save"].includes(button.dataset.command)) $("scene").focus();
    });
  }
  $("scene").addEventListener("keydown", onKeyDown);
  $("scene").addEventListener("keyup", (event) => release(event.code));
  $("scene").addEventListener("blur", releaseAll);
  window.addEventListener("blur", releaseAll);
  $("poses-box").addEventListener("toggle", () => { if (state !== null) showPoses(state); });
  // A button that is clicked leaves the focus where it is, so that keys go on to steer.
  document.addEventListener("mousedown", (event) => { if (event.target.closest("button")) event.preventDefault(); });
  steerCamera();
  setInterval(() => { if (held.size || axes.length) sendInput(); }, 150); // the loop forgets what is not repeated
  setInterval(readPad, 40);
  watch();
  bindings = await (await fetch("/bindings.json")).json();
  drawKeys();
  if (state !== null) showArms(state);
  $("scene").focus();
  labelKeys();
}

begin();
