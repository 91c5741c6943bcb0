"use strict";
(() => {
  const form = document.querySelector(".filter");
  if (!form) return;
  form.hidden = false;
  const trials = [...document.querySelectorAll(".trial")];
  const words = trials.map((trial) => trial.textContent.toLowerCase());
  const [search, condition, verdict, count] = ["search", "condition", "verdict", "count"].map((id) => document.getElementById(id));
  const show = () => {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let seen = 0;
    trials.forEach((trial, at) => {
      const fits = wanted.every((word) => words[at].includes(word))
        && (!condition.value || trial.dataset.condition === condition.value)
        && (!verdict.value || trial.dataset.verdict === verdict.value);
      trial.hidden = !fits;
      seen += fits;
    });
    count.textContent = `${seen} of ${trials.length}`;
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const button of document.querySelectorAll(".jump")) {
    button.addEventListener("click", () => {
      condition.value = button.dataset.condition;
      show();
      document.getElementById("trials").scrollIntoView();
    });
  }
  show();
})();
