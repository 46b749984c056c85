"use strict";
// Plays the frames of one demo at a time, once for each eef; marks are steps. The server decides what they are worth.

const part = (id) => document.getElementById(id);
let state = null; // what the server says
let pass = 0; // index of the eef that is being marked
let step = 0;
let playing = false;
let marks = {}; // {eef: [steps]}
let timer = null;
let busy = false;
let told = ""; // the last answer, to be read once the next demo is drawn
let wanted = ""; // addresses of pictures: to be shown, and shown or on its way
let shown = "";
let loading = false;

const current = () => state.passes[pass];
const mine = () => marks[current().eef];

function say(text, bad) {
  part("said").textContent = text;
  part("said").className = bad ? "bad" : "";
}

async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: { "X-Mimicpipe": "1", "Content-Type": "application/json" }, body: JSON.stringify(body),
  };
  const answer = await fetch(path, options);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

async function load() {
  await take(await ask("/state"));
}

async function take(news) {
  state = news;
  if (!state.finished && !state.ready) {
    say("drawing the demo …");
    setTimeout(load, 200);
    return;
  }
  pass = 0;
  step = 0;
  marks = Object.fromEntries(state.passes.map((p) => [p.eef, []]));
  playing = false;
  if (!state.finished && part("said").textContent.startsWith("drawing")) say(told || "N plays");
  told = "";
  show();
}

// One picture is on its way at a time; of those asked for meanwhile, the last one counts.
function picture(address) {
  wanted = address;
  if (!loading && address !== shown) {
    loading = true;
    shown = address;
    part("frame").src = address;
  }
}

for (const end of ["load", "error"]) {
  part("frame").addEventListener(end, () => {
    loading = false;
    if (state && !state.finished) picture(wanted);
  });
}

function show() {
  const done = state.accepted.length + state.rejected.length;
  part("progress").textContent = `${done} of ${state.demos} demos seen, ${state.accepted.length} annotated`;
  if (state.finished) {
    part("title").textContent = "Done";
    part("frame").hidden = true;
    part("marks").replaceChildren();
    part("where").textContent = "The demos are being written; this page may be closed.";
    return;
  }
  const last = state.length;
  const several = state.passes.length > 1 ? `, ${current().eef} (${pass + 1} of ${state.passes.length})` : "";
  part("title").textContent = `${state.name}${several}`;
  part("where").textContent = `step ${step} of ${last}${playing ? "" : ", paused"}`;
  picture(`/frame?demo=${state.index}&step=${step}`);
  part("played").style.width = `${(100 * step) / last}%`;
  for (const old of part("bar").querySelectorAll("i")) old.remove();
  for (const at of mine()) {
    const line = document.createElement("i");
    line.style.left = `${(100 * at) / last}%`;
    part("bar").append(line);
  }
  part("marks").replaceChildren(...current().marks.map((mark, number) => {
    const item = document.createElement("li");
    const at = mine()[number];
    item.textContent = `${mark.kind === "end" ? "end of" : "skill begins in"} “${mark.about}” (${mark.signal})`;
    if (at !== undefined) {
      const value = document.createElement("b");
      value.textContent = ` step ${at}`;
      item.append(value);
    } else if (number === mine().length) {
      item.className = "now";
    }
    return item;
  }));
}

function tick() {
  if (!playing || !state || state.finished) return;
  if (step >= state.length) playing = false;
  else step += 1;
  show();
}

async function next() {
  const complete = mine().length === current().marks.length;
  if (!complete || step < state.length) {
    // Play on; from the end, begin again.
    if (step >= state.length) step = 0;
    playing = true;
    say(complete ? "all marks are set; N at the end goes on" : "");
    show();
    return;
  }
  if (pass + 1 < state.passes.length) {
    pass += 1;
    step = 0;
    playing = true;
    show();
    return;
  }
  await send("/marks", { demo: state.index, marks });
}

async function send(path, body) {
  if (busy) return;
  busy = true;
  try {
    const answer = await ask(path, body);
    say(answer.text, !answer.ok);
    told = answer.ok ? answer.text : "";
    // The state comes with the answer: behind the last demo nobody serves another request.
    if (answer.ok) await take(answer.state);
    else {
      pass = 0;
      step = 0;
      playing = false;
      marks = Object.fromEntries(state.passes.map((p) => [p.eef, []]));
      show();
    }
  } catch (error) {
    say(String(error.message || error), true);
  } finally {
    busy = false;
  }
}

function mark() {
  const wanted = current().marks.length;
  const before = mine().at(-1) ?? 0;
  if (mine().length === wanted) say("all marks are set; take one back to set it again", true);
  else if (step <= before || step >= state.length) say(`a mark must be after step ${before} and before the end`, true);
  else {
    mine().push(step);
    say(mine().length === wanted ? "all marks are set; N at the end goes on" : "");
  }
  show();
}

const move = (by) => {
  playing = false;
  step = Math.min(Math.max(step + by, 0), state.length);
  show();
};

const commands = {
  play: next,
  pause: () => move(0),
  mark,
  undo: () => { mine().pop(); show(); },
  back: () => move(-1),
  on: () => move(1),
  skip: () => send("/skip", { demo: state.index }),
  finish: () => send("/finish", {}),
};
const keys = { n: "play", b: "pause", s: "mark", backspace: "undo", arrowleft: "back", arrowright: "on", x: "skip" };

function run(name) {
  if (!state || state.finished || !state.ready) return;
  commands[name]();
}

for (const name of Object.keys(commands)) {
  part(name).addEventListener("click", (event) => { event.currentTarget.blur(); run(name); });
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const name = keys[event.key.toLowerCase()];
  if (name === undefined) return;
  event.preventDefault();
  run(name);
});
part("bar").addEventListener("click", (event) => {
  if (!state || state.finished) return;
  const box = part("bar").getBoundingClientRect();
  step = Math.round((state.length * (event.clientX - box.left)) / box.width);
  move(0);
});

load().then(() => { timer = setInterval(tick, 1000 / (state.fps || 20)); });
