// The colours that a person chose, before anything is drawn. In: what the browser remembers. Out: data-theme on <html>.
// Without a choice the system's colours hold. A classic script: a module would run after the first paint.

(() => {
  const CHOICES = ["system", "light", "dark"];
  const KEY = "leafgate-theme";
  const root = document.documentElement;

  function remembered() {
    try {
      const found = localStorage.getItem(KEY);
      return CHOICES.includes(found) ? found : "system";
    } catch {
      return "system"; // a browser that keeps nothing for pages
    }
  }

  function remember(choice) {
    try {
      localStorage.setItem(KEY, choice);
    } catch {
      // then it holds until the page is left
    }
  }

  root.dataset.theme = remembered();

  document.addEventListener("DOMContentLoaded", () => {
    const name = document.getElementById("theme-name");
    name.textContent = root.dataset.theme;
    document.getElementById("theme").addEventListener("click", () => {
      const next = CHOICES[(CHOICES.indexOf(root.dataset.theme) + 1) % CHOICES.length];
      root.dataset.theme = next;
      name.textContent = next;
      remember(next);
    });
  });
})();
