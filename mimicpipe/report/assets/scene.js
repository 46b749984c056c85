// Turns the figure of paths: drag with mouse or finger, or arrow keys. Points are metres from the figure's middle, z up.
(() => {
  const figure = document.getElementById("scene");
  if (!figure) return;
  const { azimuth, elevation, scale, points } = JSON.parse(document.getElementById("scene-data").textContent);
  const shapes = [...figure.children];
  const half = figure.viewBox.baseVal.width / 2;
  let turn = azimuth;
  let tilt = elevation;

  function draw() {
    const [ca, sa, ce, se] = [Math.cos(turn), Math.sin(turn), Math.cos(tilt), Math.sin(tilt)];
    const place = ([x, y, z]) => [
      (half + scale * (ca * y - sa * x)).toFixed(1),
      (half - scale * (ce * z - se * (ca * x + sa * y))).toFixed(1),
    ];
    shapes.forEach((shape, i) => {
      const flat = points[i].map(place);
      if (shape.tagName === "polyline") shape.setAttribute("points", flat.map((p) => p.join(",")).join(" "));
      else {
        const names = shape.tagName === "text" ? ["x", "y"] : ["cx", "cy"];
        names.forEach((name, axis) => shape.setAttribute(name, flat[0][axis]));
      }
    });
  }

  function rotate(dx, dy) {
    turn -= dx;
    tilt = Math.min(Math.PI / 2, Math.max(-0.2, tilt + dy));
    draw();
  }

  let last = null;
  figure.addEventListener("pointerdown", (event) => {
    last = [event.clientX, event.clientY];
    figure.setPointerCapture(event.pointerId);
  });
  figure.addEventListener("pointermove", (event) => {
    if (!last) return;
    rotate((event.clientX - last[0]) * 0.01, (event.clientY - last[1]) * 0.01);
    last = [event.clientX, event.clientY];
  });
  for (const name of ["pointerup", "pointercancel"]) figure.addEventListener(name, () => (last = null));
  figure.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] };
    if (!moves[event.key]) return;
    event.preventDefault();
    rotate(...moves[event.key]);
  });
})();
