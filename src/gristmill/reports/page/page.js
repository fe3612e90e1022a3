"use strict";
// Sliders: what another limit would drop. All figures are in the page, as numbers in attributes.
const figures = new Intl.NumberFormat("en", { maximumFractionDigits: 4 });

function percent(part, whole) {
  const found = (100 * part) / Math.max(whole, 1);
  if (part > 0 && found < 0.1) return "< 0.1 %";
  if (part < whole && found > 99.9) return "> 99.9 %";
  return found.toFixed(1) + " %";
}

for (const rule of document.querySelectorAll(".rule")) {
  const numbers = (name) => rule.dataset[name].split(" ").map(Number);
  const places = numbers("places");
  const shares = numbers("x");
  const dropped = numbers("dropped");
  const documents = Number(rule.dataset.documents);
  const slider = rule.querySelector("input");
  const line = rule.querySelector(".mover");
  const show = (at) => {
    const x = Math.min(Math.max(shares[at], 0), 100);
    line.setAttribute("x1", x + "%");
    line.setAttribute("x2", x + "%");
    const value = figures.format(places[at]);
    rule.querySelector(".at").textContent = rule.dataset.word + " " + value;
    rule.querySelector(".part").textContent = percent(dropped[at], documents);
    rule.querySelector(".count").textContent = "(" + figures.format(dropped[at]) + ")";
    slider.setAttribute("aria-valuetext", value);
    return x;
  };
  // The slider runs along the axis: the limit that is the nearest to it counts.
  const nearest = () => {
    let best = 0;
    for (let at = 1; at < shares.length; at++)
      if (Math.abs(shares[at] - slider.value / 10) < Math.abs(shares[best] - slider.value / 10)) best = at;
    return best;
  };
  slider.hidden = false;
  slider.step = Math.max(1, Math.floor(1000 / shares.length));
  slider.value = 10 * show(Number(rule.dataset.here));
  slider.addEventListener("input", () => show(nearest()));
}

// A link to a reason opens its documents.
function open() {
  const found = location.hash && document.getElementById(location.hash.slice(1));
  if (found instanceof HTMLDetailsElement) {
    found.open = true;
    found.scrollIntoView();
  }
}
addEventListener("hashchange", open);
open();

// On paper nothing can be opened.
addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("details")) one.open = true;
});
