// The code stands after the #, which no server or log sees. It is taken out of
// the address before anything else, so that it stays out of the history.
const code = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
const field = document.querySelector("input[name=code]");
if (/^gpa_[\w-]{43}$/.test(code) && !document.querySelector("[role=alert]")) {
  field.value = code;
  field.form.submit();
}
