// Asks a person for a token. In: why the gateway refused. Out: a kept token, and a call of `entered`.

import { byId, say } from "/dashboard/element.js";
import { forgetToken, hasToken, keepToken } from "/dashboard/gateway-api.js";

export function tokenGate(entered) {
  const gate = byId("gate");
  const field = byId("token");
  const out = byId("sign-out");

  byId("gate-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const token = field.value.trim();
    field.value = "";
    if (!isToken(token)) return say("gate-problem", "A token is one word of letters, digits and signs.");
    keepToken(token);
    entered();
  });
  // There is nothing to be seen behind it.
  gate.addEventListener("cancel", (event) => event.preventDefault());
  out.addEventListener("click", () => {
    forgetToken();
    location.reload();
  });

  return {
    open(problem) {
      if (problem !== "" || !gate.open) say("gate-problem", problem);
      if (!gate.open) gate.showModal();
      field.focus();
    },
    close() {
      out.hidden = !hasToken();
      if (gate.open) gate.close();
    },
  };
}

// What can stand in a header.
const isToken = (text) => /^[\x21-\x7e]+$/.test(text);
